import { showReward } from "../data/figures.ts";

/** Dark blue-grey to bright green-yellow: one scale, told apart without seeing colours by its lightness. */
const STOPS = [
	[58, 72, 92],
	[52, 110, 122],
	[74, 152, 110],
	[142, 190, 74],
	[216, 220, 60],
] as const;

function rewardColour(reward: number): string {
	const at = Math.min(1, Math.max(0, reward)) * (STOPS.length - 1);
	const index = Math.min(STOPS.length - 2, Math.floor(at));
	const [from, to] = [STOPS[index]!, STOPS[index + 1]!];
	const mixed = from.map((value, channel) => Math.round(value + (to[channel]! - value) * (at - index)));
	return `rgb(${mixed.join(" ")})`;
}

/** Always with the number. */
export function Reward({ reward, large = false }: { reward: number | null; large?: boolean }) {
	return (
		<span className={large ? "reward large" : "reward"}>
			{reward !== null && <i style={{ background: rewardColour(reward) }} />}
			{showReward(reward)}
		</span>
	);
}
