import { useEffect, useState, useSyncExternalStore } from "react";
import { server } from "../server.ts";
import { EventFeed, type Feed, NOTHING, type Open } from "./event-feed.ts";

export function useRolloutFeed(id: string): Feed {
	return useFeed(id, (follow) => server.events(id, follow));
}

/** `turn` rises when a closed one was opened again: its log goes on. */
export function useConversationFeed(id: string, turn: number): Feed {
	return useFeed(`${id} ${turn}`, (follow) => server.conversationEvents(id, follow));
}

function useFeed(key: string, open: Open): Feed {
	const [feed, setFeed] = useState<EventFeed | null>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: the key says what is opened
	useEffect(() => {
		const opened = new EventFeed(open);
		setFeed(opened);
		return () => {
			opened.close();
			setFeed(null);
		};
	}, [key]);
	return useSyncExternalStore(feed?.subscribe ?? nobody, feed?.current ?? nothing);
}

const nobody = () => () => {};
const nothing = () => NOTHING;
