import { isIP } from "node:net";

/** Addresses of one network: the first `prefix` bits are those of `address`. */
export interface Subnet {
	address: string;
	prefix: number;
}

/**
 * Neither a machine's own, nor private, nor anything else that is not plain unicast on the internet. `near` are the
 * networks of the machine that asks: whoever lives there is a neighbour, whatever his address.
 */
export function isPublicAddress(address: string, near: readonly Subnet[] = []): boolean {
	const bytes = toBytes(address);
	if (bytes === null || isMetadataAddress(address)) return false;
	if (near.some((subnet) => isWithin(bytes, subnet))) return false;
	const carried = carriedIPv4(bytes);
	// A way into the v4 world is as public as what it leads to; NAT64 prefixes of one's own are never public.
	if (carried !== null) return isMapped(bytes) && isPublicAddress(carried, near);
	return !matches(bytes.length === 4 ? RESERVED_V4 : RESERVED_V6, bytes);
}

/**
 * Where clouds keep a machine's own credentials, however the address is written. No model and no package lives there,
 * so nobody has reason to ask; private and loopback addresses are another matter: one's own engine may run there.
 */
export function isMetadataAddress(address: string): boolean {
	const bytes = toBytes(address);
	if (bytes === null) return false;
	const carried = carriedIPv4(bytes);
	if (carried !== null) return isMetadataAddress(carried);
	return matches(bytes.length === 4 ? METADATA_V4 : METADATA_V6, bytes);
}

const METADATA_V4 = [
	// Link-local: AWS, Google, Azure, Oracle and most others.
	"169.254.0.0/16",
	// Alibaba, Azure's wire server, Oracle's first.
	...["100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"],
];
const METADATA_V6 = ["fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"];

const RESERVED_V4 = [
	...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24"],
	...["192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"],
	...["203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
];
const RESERVED_V6 = [
	...["::/8", "64:ff9b::/16", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"],
	...["5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"],
];

/** Forms of v6 that carry a v4 address: where it stands, counted in bytes. */
const CARRIERS = [
	{ range: "::ffff:0:0/96", at: 12 },
	{ range: "::ffff:0:0:0/96", at: 12 },
	{ range: "::/96", at: 12 },
	{ range: "64:ff9b::/96", at: 12 },
	{ range: "64:ff9b:1::/48", at: 12 },
	{ range: "2002::/16", at: 2 },
];
const TEREDO = "2001::/32";

function carriedIPv4(bytes: Uint8Array): string | null {
	if (bytes.length === 4) return null;
	const carrier = CARRIERS.find(({ range }) => matches([range], bytes));
	if (carrier !== undefined) return bytes.subarray(carrier.at, carrier.at + 4).join(".");
	// Teredo hides the address from translators by turning every bit around.
	return matches([TEREDO], bytes)
		? bytes
				.subarray(12)
				.map((byte) => byte ^ 0xff)
				.join(".")
		: null;
}

function isMapped(bytes: Uint8Array): boolean {
	return matches(["::ffff:0:0/96"], bytes);
}

function matches(ranges: readonly string[], bytes: Uint8Array): boolean {
	return ranges.some((range) => {
		const [address = "", prefix] = range.split("/");
		return isWithin(bytes, { address, prefix: Number(prefix) });
	});
}

function isWithin(bytes: Uint8Array, { address, prefix }: Subnet): boolean {
	const network = toBytes(address);
	if (network === null || network.length !== bytes.length) return false;
	return network.every((byte, index) => {
		const bits = Math.min(8, Math.max(0, prefix - 8 * index));
		const mask = (0xff << (8 - bits)) & 0xff;
		return (byte & mask) === (bytes[index]! & mask);
	});
}

/** Four bytes or sixteen; null for what is no address, and for one that only means something on one link. */
function toBytes(address: string): Uint8Array | null {
	const family = address.includes("%") ? 0 : isIP(address);
	if (family === 0) return null;
	if (family === 4) return Uint8Array.from(address.split("."), Number);
	const [head = "", tail] = address.split("::");
	const groups = (text: string) => (text === "" ? [] : text.split(":").flatMap(toGroup));
	const before = groups(head);
	const after = tail === undefined ? [] : groups(tail);
	return Uint8Array.from([...before, ...Array<number>(16 - before.length - after.length).fill(0), ...after]);
}

/** A group of four hex digits is two bytes; the last may be a whole v4 address. */
function toGroup(text: string): number[] {
	if (text.includes(".")) return text.split(".").map(Number);
	const value = Number.parseInt(text, 16);
	return [value >> 8, value & 0xff];
}
