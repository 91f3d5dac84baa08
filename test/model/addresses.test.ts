import { expect, test } from "vitest";
import { isMetadataAddress, isPublicAddress } from "../../src/model/addresses.ts";

test.each([
	...["127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "0.0.0.0"],
	...["169.254.169.254", "168.63.129.16", "192.88.99.1", "198.19.0.1", "224.0.0.1", "255.255.255.255"],
	...["::1", "::", "fe80::1", "fd00::1", "ff02::1", "2001:db8::1", "3fff::1", "fec0::1", "100::1"],
	...["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:0:127.0.0.1", "::127.0.0.1", "::ffff:168.63.129.16"],
	...["64:ff9b::7f00:1", "64:ff9b::1.1.1.1", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:101:101::1"],
	...["2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700:4700::1111%1", "fe80::1%eth0"],
	...["localhost", "1.1.1", "01.1.1.1", "0x7f.1", "", "1.1.1.1/8"],
])("%s is not public", (address) => expect(isPublicAddress(address)).toBe(false));

test.each([
	...["1.1.1.1", "93.184.216.34", "172.32.0.1", "192.0.1.1", "168.63.129.17"],
	...["2606:4700:4700::1111", "2606:4700:4700:0:0:0:0:1111", "::ffff:1.1.1.1", "::FFFF:101:101"],
])("%s is public", (address) => expect(isPublicAddress(address)).toBe(true));

test("whoever shares a network with this machine is a neighbour, however he is spelt", () => {
	const near = [
		{ address: "2a01:4f8:c0c:1234::1", prefix: 64 },
		{ address: "93.184.216.34", prefix: 28 },
	];
	const neighbours = [
		"2a01:4f8:c0c:1234:ffff::9",
		"2A01:04F8:0C0C:1234::2",
		"93.184.216.47",
		"::ffff:5db8:d821",
	];
	for (const address of neighbours)
		expect([address, isPublicAddress(address, near)]).toEqual([address, false]);
	const strangers = ["2a01:4f8:c0c:1235::1", "93.184.216.48", "1.1.1.1"];
	for (const address of strangers) expect([address, isPublicAddress(address, near)]).toEqual([address, true]);
});

test.each([
	...["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
	...["fe80::a9fe:a9fe", "fd00:ec2::254", "FD00:0EC2:0:0:0:0:0:254", "fd20:ce::254"],
	...[
		"::ffff:169.254.169.254",
		"::ffff:a9fe:a9fe",
		"::a9fe:a9fe",
		"64:ff9b::a9fe:a9fe",
		"64:ff9b:1::a83f:8110",
	],
	...["2002:a9fe:a9fe::1", "2001:0:0:0:0:0:5601:5601"],
])("%s is where a cloud keeps credentials", (address) => expect(isMetadataAddress(address)).toBe(true));

test.each(["127.0.0.1", "10.0.0.1", "192.168.1.5", "::1", "fd00::1", "1.1.1.1", "64:ff9b::a00:1", "engine"])(
	"%s is not",
	(address) => expect(isMetadataAddress(address)).toBe(false),
);
