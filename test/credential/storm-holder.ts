import { setTimeout as delay } from "node:timers/promises";
import { type HoldClocks, holdCredential } from "../../src/credential/hold.ts";
import { openRefresher } from "../../src/credential/refresher/refresher.ts";
import { LoginTokens } from "../../src/credential/tokens.ts";
import { openStoreAt, type StorePlace } from "../../src/store/place.ts";

export interface StormOrder {
	place: StorePlace;
	labels: string[];
	clocks: HoldClocks;
	baseUrl: string;
}

/** Takes logins, has their tokens refreshed and uses them, for ever. Made to be killed. */
if (process.argv[2]) {
	const { place, labels, clocks, baseUrl } = JSON.parse(process.argv[2]) as StormOrder;
	const { credentials } = await openStoreAt(place);
	const refresher = openRefresher(place);
	for (;;) {
		const label = labels[Math.floor(Math.random() * labels.length)]!;
		try {
			await using held = await holdCredential(credentials, label, `storm-${process.pid}`, { clocks });
			await using tokens = new LoginTokens(credentials, held, refresher);
			let access = await tokens.fresh();
			for (let rotation = 0; rotation < 3; rotation += 1) {
				access = await tokens.fresh(access);
				const headers = { authorization: `Bearer ${access}` };
				const body = JSON.stringify({ user: held.hold.holder });
				await fetch(`${baseUrl}/chat/completions`, { method: "POST", headers, body });
			}
		} catch (error) {
			const { code } = error as { code?: string };
			if (code !== "credential_held" && code !== "credential_lost") throw error;
			await delay(20);
		}
	}
}
