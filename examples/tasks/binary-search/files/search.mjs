/** The index of the first element of `sorted` that equals `wanted`, or -1. */
export function binarySearch(sorted, wanted) {
  throw new Error("not written yet");
}
