import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { isMetadataAddress } from "../../model/addresses.ts";

/**
 * Resolves as always, and refuses a name that leads to the machine's own credentials; the connection then goes to what was
 * checked. Private and loopback addresses are another matter: that is where one's own engine runs.
 */
export const lookupOpen: LookupFunction = (hostname, options, callback) => {
	lookup(hostname, { ...options, all: true }, (error, addresses) => {
		if (error) return callback(error, []);
		if (addresses.some(({ address }) => isMetadataAddress(address)))
			return callback(Object.assign(new Error(`${hostname} is link-local`), { code: "LINK_LOCAL" }), []);
		if (options.all) return callback(null, addresses);
		const [first] = addresses;
		callback(null, first?.address ?? "", first?.family ?? 4);
	});
};
