import { lookup } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

/**
 * Where clouds keep the machine's own credentials. No model lives there, and a caller may choose a base URL; private
 * and loopback addresses are another matter: that is where one's own engine runs.
 */
const CLOSED = new BlockList();
CLOSED.addSubnet("169.254.0.0", 16, "ipv4");
CLOSED.addAddress("100.100.100.200", "ipv4");
CLOSED.addSubnet("fe80::", 10, "ipv6");
CLOSED.addAddress("fd00:ec2::254", "ipv6");

export function isClosedAddress(address: string): boolean {
	const family = isIP(address);
	return family !== 0 && CLOSED.check(address, family === 6 ? "ipv6" : "ipv4");
}

/** Resolves as always, and refuses a name that leads there; the connection then goes to what was checked. */
export const lookupOpen: LookupFunction = (hostname, options, callback) => {
	lookup(hostname, { ...options, all: true }, (error, addresses) => {
		if (error) return callback(error, []);
		if (addresses.some(({ address }) => isClosedAddress(address)))
			return callback(Object.assign(new Error(`${hostname} is link-local`), { code: "LINK_LOCAL" }), []);
		if (options.all) return callback(null, addresses);
		const [first] = addresses;
		callback(null, first?.address ?? "", first?.family ?? 4);
	});
};
