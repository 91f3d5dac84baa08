import sys


def merge(intervals):
    merged = []
    for start, end in intervals:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


if __name__ == "__main__":
    pairs = [tuple(map(int, word.split("-"))) for word in sys.argv[1].split()]
    print(" ".join(f"{start}-{end}" for start, end in merge(pairs)))
