"""Reads a Paddock call log (docs/trace.md): python3 read_trace.py calls.trace > calls.jsonl"""
import json, struct, sys, zlib

def words(planes, kind):
    n = len(planes) // 4
    return list(struct.unpack(f"<{n}{kind}", bytes(planes[p * n + i] for i in range(n) for p in range(4))))

def read(data):
    at, calls, gone, slots, objects = 0, [], set(), {}, []
    while 0 <= at <= len(data) - 12:
        if data.startswith(b"PDKTRACE\1\0\0\0", at):
            at, slots, objects = at + 12, {None: {"ids": [], "messages": [], "tools": []}}, []
            continue
        kind, flags, _, size, crc = struct.unpack_from("<BBHII", data, at)
        payload = data[at + 12 : at + 12 + size]
        if len(payload) < size or zlib.crc32(payload, zlib.crc32(data[at : at + 8])) != crc:
            at = data.find(b"PDKTRACE", at + 1)  # damaged: go on with the next section, if there is one
            continue
        at, payload = at + 12 + size, zlib.decompress(payload) if flags & 1 else payload
        if kind == 2: gone.add(struct.unpack("<I", payload)[0])
        if kind != 1: continue
        p = 4 + struct.unpack_from("<I", payload)[0]
        head = json.loads(payload[4:p])
        base, c = slots[head["base"]], p + 4 * head["promptIds"]["add"]
        objects += head["objects"]
        slot = {name: base[name][: head[name]["keep"]] + [objects[n] for n in head[name]["add"]] for name in ("messages", "tools")}
        prompt, l = base["ids"][: head["promptIds"]["keep"]] + words(payload[p:c], "i"), c + 4 * head["completionIds"]
        tokens = {"promptIds": prompt, "completionIds": words(payload[c:l], "i"), "logprobs": words(payload[l:], "f")}
        calls.append({**head["call"], **slot, **tokens, "reply": None if head["reply"] is None else objects[head["reply"]]})
        slots[head["slot"]] = {"ids": prompt + tokens["completionIds"], **slot}
    return [{**call, "superseded": call["index"] in gone} for call in calls]

for call in read(open(sys.argv[1], "rb").read()): print(json.dumps(call))
