export const ROOT: string;
export function isNodeNewEnough(version?: string): boolean;
export function findBundledNode(root?: string): string | null;
