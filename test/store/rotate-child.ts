import { openStoreAt, type StorePlace } from "../../src/store/place.ts";

/** Puts new master keys in the old one's place for ever. Made to be killed. */
if (process.argv[2]) {
	const store = await openStoreAt(JSON.parse(process.argv[2]) as StorePlace);
	for (;;) await store.rotateKey();
}
