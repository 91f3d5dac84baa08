/** What an agent is asked while it warms up, and the gateway's answer is about: a word, or one run of its shell. */
export const WARM_UP = { word: "Reply with: ok", shell: "Run: true" };
