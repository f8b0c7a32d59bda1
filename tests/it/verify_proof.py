#!/usr/bin/env python3
"""A second verifier for luckybag proofs, written from docs/proof.md: standard library only.

    verify_proof.py PROOF [ENTRY]      checks one proof, and beside it one entry
    verify_proof.py --batch            reads lines of ["proof text", "entry text" or null] from
                                       standard input and answers each with a line

Prints "ok", or what does not hold; its exit code is 0 only when everything did.
"""

import hashlib
import json
import re
import sys

PROOF_FIELDS = {
    "format", "activityId", "commitment", "seed", "rules", "rulesHash", "scoreRuleVersion",
    "entriesCount", "entriesTree", "entriesRoot", "round", "cutoffScore", "winners", "redraws",
}
WINNER_FIELDS = {
    "seat", "round", "userId", "score", "prizeRank", "prizeId", "revokedInRound", "entry",
}
OPENING_FIELDS = {"index", "salt", "path"}
REDRAW_FIELDS = {"round", "seats"}
DOCUMENT_FIELDS = {"format", "activityId", "entriesRoot", "entriesCount", "entry", "score"}
ENTRY_FIELDS = {"userId", "index", "salt", "status", "reason", "eligibility", "path"}

STATUS = {"joined": 1, "rejected": 2}
REASON = {None: 0, "blocked": 1, "cooldown": 2, "duplicateDevice": 3, "invalid": 4}
ELIGIBILITY = {
    None: 0, "eligible": 1, "absent": 2, "tasksUnfinished": 3, "absentAndTasksUnfinished": 4,
    "forfeited": 5,
}
ELIGIBLE = ("joined", None, "eligible")


class Wrong(Exception):
    pass


def wrong(name, message):
    raise Wrong(f"{name}: {message}")


# --- hashes -------------------------------------------------------------------------------------

def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u64(number):
    return number.to_bytes(8, "big")


def leaf_hash(activity, salt, user, state):
    status, reason, eligibility = state
    codes = bytes([STATUS[status], REASON[reason], ELIGIBILITY[eligibility]])
    return sha256(b"\0", b"luckybag/entry/v1", u64(activity), salt, u64(user), codes)


def tree_of(index, count, leaf, path):
    """The hash of the tree to which a path leads; None when the path has another length."""
    if index >= count:
        return None
    node, rest = leaf, list(path)
    while count > 1:
        if index % 2 == 1:
            if not rest:
                return None
            node = sha256(b"\1", rest.pop(0), node)
        elif index + 1 < count:
            if not rest:
                return None
            node = sha256(b"\1", node, rest.pop(0))
        index //= 2
        count = (count + 1) // 2
    return None if rest else node


# --- scores -------------------------------------------------------------------------------------

def rotate(word, bits):
    return ((word << bits) | (word >> (32 - bits))) & 0xFFFFFFFF


def quarter_round(x, a, b, c, d):
    x[a] = (x[a] + x[b]) & 0xFFFFFFFF
    x[d] = rotate(x[d] ^ x[a], 16)
    x[c] = (x[c] + x[d]) & 0xFFFFFFFF
    x[b] = rotate(x[b] ^ x[c], 12)
    x[a] = (x[a] + x[b]) & 0xFFFFFFFF
    x[d] = rotate(x[d] ^ x[a], 8)
    x[c] = (x[c] + x[d]) & 0xFFFFFFFF
    x[b] = rotate(x[b] ^ x[c], 7)


def keystream(seed, user):
    """The first 16 bytes of ChaCha20 with a 64-bit counter, at 0, and the user id as nonce."""
    words = [int.from_bytes(seed[i:i + 4], "little") for i in range(0, 32, 4)]
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words]
    start += [0, 0, user & 0xFFFFFFFF, user >> 32]
    x = list(start)
    for _ in range(10):
        quarter_round(x, 0, 4, 8, 12)
        quarter_round(x, 1, 5, 9, 13)
        quarter_round(x, 2, 6, 10, 14)
        quarter_round(x, 3, 7, 11, 15)
        quarter_round(x, 0, 5, 10, 15)
        quarter_round(x, 1, 6, 11, 12)
        quarter_round(x, 2, 7, 8, 13)
        quarter_round(x, 3, 4, 9, 14)
    return b"".join(((x[i] + start[i]) & 0xFFFFFFFF).to_bytes(4, "little") for i in range(4))


def score_of(seed, user):
    return (int.from_bytes(keystream(seed, user)[:8], "little") >> 11) / 2 ** 53


def place_of(seed, user):
    """Sorts best first."""
    stream = keystream(seed, user)
    first, second = (int.from_bytes(stream[at:at + 8], "little") for at in (0, 8))
    return (-(first >> 11), -second, user)


# --- reading ------------------------------------------------------------------------------------

def load(text, name="."):
    def no_repeats(pairs):
        if len({field for field, _ in pairs}) != len(pairs):
            wrong(name, "a field is given twice")
        return dict(pairs)

    def constant(word):
        wrong(name, f"{word} is not JSON")

    def number(word):
        value = float(word)
        if value in (float("inf"), float("-inf")):
            wrong(name, f"{word} is too large a number")
        return value
    try:
        value = json.loads(
            text, object_pairs_hook=no_repeats, parse_constant=constant, parse_float=number)
        # Half of a surrogate pair is no character; the pair in `\\ud83d\\ude00` is read as one.
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        wrong(name, f"this is not JSON: {error}")


def fields(value, name, needed, optional=frozenset()):
    if not isinstance(value, dict):
        wrong(name, "this is not an object")
    for field in sorted(set(value) - needed - optional):
        wrong(f"{name}.{field}".lstrip("."), "this field is unknown")
    for field in sorted(needed - set(value)):
        wrong(f"{name}.{field}".lstrip("."), "this field is missing")


def text(value, name):
    if not isinstance(value, str):
        wrong(name, "this is not a text")
    return value


def number(value, name, bits):
    if type(value) is not int or not 0 <= value < 2 ** bits:
        wrong(name, f"this is not a whole number of {bits} bits")
    return value


def score(value, name):
    if type(value) not in (int, float) or not 0 <= value < 1:
        wrong(name, "this is not a number from 0 up to 1")
    return float(value)


def identity(value, name):
    if not isinstance(value, str) or not re.fullmatch("[1-9][0-9]{0,18}", value):
        wrong(name, "this is not an id")
    if int(value) >= 2 ** 63:
        wrong(name, "this is not an id")
    return int(value)


def hex32(value, name):
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        wrong(name, "this is not 64 lower-case hex digits")
    return bytes.fromhex(value)


def items(value, name):
    if not isinstance(value, list):
        wrong(name, "this is not a list")
    return value


def or_null(read, value, *more):
    return None if value is None else read(value, *more)


def path_of(value, name):
    return [hex32(item, f"{name}[{i}]") for i, item in enumerate(items(value, name))]


def check_format(value, expected):
    if not isinstance(value, dict) or "format" not in value:
        wrong(".", "the format is missing")
    if text(value["format"], "format") != expected:
        wrong("format", f"only {expected} is understood here")


def read_winner(value, name):
    fields(value, name, WINNER_FIELDS)
    opening = value["entry"]
    fields(opening, f"{name}.entry", OPENING_FIELDS)
    return {
        "seat": number(value["seat"], f"{name}.seat", 32),
        "round": number(value["round"], f"{name}.round", 32),
        "user": identity(value["userId"], f"{name}.userId"),
        "score": score(value["score"], f"{name}.score"),
        "prizeRank": number(value["prizeRank"], f"{name}.prizeRank", 32),
        "prizeId": identity(value["prizeId"], f"{name}.prizeId"),
        "revoked": or_null(number, value["revokedInRound"], f"{name}.revokedInRound", 32),
        "index": number(opening["index"], f"{name}.entry.index", 64),
        "salt": hex32(opening["salt"], f"{name}.entry.salt"),
        "path": path_of(opening["path"], f"{name}.entry.path"),
    }


def read_redraw(value, name):
    fields(value, name, REDRAW_FIELDS)
    seats = items(value["seats"], f"{name}.seats")
    return {
        "round": number(value["round"], f"{name}.round", 32),
        "seats": [number(seat, f"{name}.seats[{i}]", 32) for i, seat in enumerate(seats)],
    }


def read_proof(document):
    value = load(document)
    check_format(value, "luckybag/proof/v1")
    fields(value, "", PROOF_FIELDS)
    winners = items(value["winners"], "winners")
    redraws = items(value["redraws"], "redraws")
    return {
        "activity": identity(value["activityId"], "activityId"),
        "commitment": hex32(value["commitment"], "commitment"),
        "seed": hex32(value["seed"], "seed"),
        "rules": text(value["rules"], "rules"),
        "rulesHash": hex32(value["rulesHash"], "rulesHash"),
        "scoreRule": number(value["scoreRuleVersion"], "scoreRuleVersion", 32),
        "count": number(value["entriesCount"], "entriesCount", 64),
        "tree": hex32(value["entriesTree"], "entriesTree"),
        "root": hex32(value["entriesRoot"], "entriesRoot"),
        "round": number(value["round"], "round", 32),
        "cutoff": or_null(score, value["cutoffScore"], "cutoffScore"),
        "winners": [read_winner(w, f"winners[{i}]") for i, w in enumerate(winners)],
        "redraws": [read_redraw(r, f"redraws[{i}]") for i, r in enumerate(redraws)],
    }


def read_entry(document):
    value = load(document)
    check_format(value, "luckybag/entry/v1")
    fields(value, "", DOCUMENT_FIELDS, {"rank"})
    entry = value["entry"]
    fields(entry, "entry", ENTRY_FIELDS)
    return {
        "activity": identity(value["activityId"], "activityId"),
        "root": hex32(value["entriesRoot"], "entriesRoot"),
        "count": number(value["entriesCount"], "entriesCount", 64),
        "score": score(value["score"], "score"),
        "rank": or_null(number, value.get("rank"), "rank", 32),
        "user": identity(entry["userId"], "entry.userId"),
        "index": number(entry["index"], "entry.index", 64),
        "salt": hex32(entry["salt"], "entry.salt"),
        "state": (
            text(entry["status"], "entry.status"),
            or_null(text, entry["reason"], "entry.reason"),
            or_null(text, entry["eligibility"], "entry.eligibility"),
        ),
        "path": path_of(entry["path"], "entry.path"),
    }


# --- checks -------------------------------------------------------------------------------------

def check_rules(proof):
    """The prize of each seat, from rules that were committed to together with the seed."""
    def commits_to(rules_hash):
        return proof["commitment"] == sha256(
            b"luckybag/commit/v1", u64(proof["activity"]), proof["seed"], rules_hash)

    actual = sha256(proof["rules"].encode())
    if actual != proof["rulesHash"]:
        if commits_to(actual):
            wrong("rulesHash", "this is not the hash of the rules")
        wrong("rules", "this is not the text that rulesHash and commitment are about")
    try:
        rules = load(proof["rules"], "rules")
        activity = identity(rules["activityId"], "rules")
        score_rule = number(rules["scoreRuleVersion"], "rules", 32)
        prizes = [
            (number(p["rank"], "rules", 32), identity(p["prizeId"], "rules"),
             number(p["quantity"], "rules", 32))
            for p in rules["prizes"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        wrong("rules", f"they cannot be used: {error}")
    if sum(quantity for _, _, quantity in prizes) > 10_000:
        wrong("rules", "they have more seats than there may be")
    if activity != proof["activity"]:
        wrong("activityId", "the rules are those of another activity")
    if score_rule != proof["scoreRule"]:
        wrong("scoreRuleVersion", "this is not that of the rules")
    if score_rule != 1:
        wrong("scoreRuleVersion", "only rule 1 is understood here")
    if not commits_to(actual):
        seed, winners = proof["seed"], proof["winners"]
        if all(winner["score"] == score_of(seed, winner["user"]) for winner in winners):
            wrong("commitment", "seed and rules are not what it commits to")
        wrong("seed", "neither the commitment nor the winners' scores follow from it")
    prizes.sort(key=lambda prize: prize[0])
    return [(rank, prize) for rank, prize, quantity in prizes for _ in range(quantity)]


def check_entries(proof):
    activity, count, tree = proof["activity"], proof["count"], proof["tree"]
    ways = []
    for winner in proof["winners"]:
        leaf = leaf_hash(activity, winner["salt"], winner["user"], ELIGIBLE)
        ways.append(tree_of(winner["index"], count, leaf, winner["path"]))
    if proof["root"] != sha256(b"luckybag/entries/v1", u64(activity), u64(count), tree):
        if None in ways:
            wrong("entriesCount", "neither entriesRoot nor the winners' paths are of so many")
        if any(way != tree for way in ways):
            wrong("entriesTree", "neither entriesRoot nor the winners' paths lead to it")
        wrong("entriesRoot", "it is not the hash of activityId, entriesCount and entriesTree")
    if count == 0 and tree != sha256():
        wrong("entriesTree", "this is not the hash of no entries")
    for i, (winner, way) in enumerate(zip(proof["winners"], ways)):
        if winner["score"] != score_of(proof["seed"], winner["user"]):
            if way == tree:
                wrong(f"winners[{i}].score", "this is not the user's score")
            wrong(f"winners[{i}].userId", "neither the score nor the entry are this user's")
        if way != tree:
            wrong(f"winners[{i}].entry", "no eligible entry of the user is there")
    numbered = sorted(enumerate(proof["winners"]), key=lambda pair: pair[1]["user"])
    for (_, lower), (i, higher) in zip(numbered, numbered[1:]):
        if lower["user"] != higher["user"] and lower["index"] >= higher["index"]:
            wrong(f"winners[{i}].entry", "the entries are not in the order of user ids")


def check_numbers(proof, seats):
    last = proof["round"]
    if last < 1 or len(proof["redraws"]) != last - 1:
        wrong("round", "the redraws are not one fewer than the rounds")
    for i, redraw in enumerate(proof["redraws"]):
        if redraw["round"] != i + 2:
            wrong(f"redraws[{i}].round", "the rounds are not numbered from 2 on")
    for i, winner in enumerate(proof["winners"]):
        if not 1 <= winner["seat"] <= len(seats):
            wrong(f"winners[{i}].seat", "the rules have no such seat")
        if not 1 <= winner["round"] <= last:
            wrong(f"winners[{i}].round", "there was no such round")
        revoked = winner["revoked"]
        if revoked is not None and not winner["round"] < revoked <= last:
            wrong(f"winners[{i}].revokedInRound", "there was no such later round")


def check_rounds(proof, seats):
    """Whether a seat ever stayed empty, and the place of whoever won last."""
    check_numbers(proof, seats)
    winners = proof["winners"]
    order = sorted(range(len(winners)), key=lambda i: (winners[i]["round"], winners[i]["seat"]))
    for before, i in zip(order, order[1:]):
        if all(winners[before][key] == winners[i][key] for key in ("round", "seat")):
            wrong(f"winners[{i}].seat", "it has two winners in one round")
    users = set()
    for i, winner in enumerate(winners):
        if winner["user"] in users:
            wrong(f"winners[{i}].userId", "this user won before")
        users.add(winner["user"])

    def sit(round_number, free):
        sitting = [i for i in order if winners[i]["round"] == round_number]
        for place, i in enumerate(sitting):
            if place >= len(free) or free[place] != winners[i]["seat"]:
                wrong(f"winners[{i}].seat", "the seats are not given in ascending order")
        return len(sitting)

    taken = sit(1, range(1, len(seats) + 1))
    is_short = taken < len(seats)
    for k, redraw in enumerate(proof["redraws"]):
        number_of_round, lost = redraw["round"], []
        for i, winner in enumerate(winners):
            if winner["revoked"] == number_of_round:
                if winner["seat"] not in redraw["seats"]:
                    wrong(f"winners[{i}].revokedInRound", "the redraws say nothing of it")
                lost.append(winner["seat"])
        if sorted(lost) != redraw["seats"]:
            wrong(f"redraws[{k}].seats", "these are not the seats lost in that round")
        if not lost:
            wrong(f"redraws[{k}].seats", "a redraw takes at least one win back")
        fresh = [i for i in order if winners[i]["round"] == number_of_round]
        if fresh and is_short:
            wrong(f"winners[{fresh[0]}].round", "nobody was left by then")
        is_short |= sit(number_of_round, sorted(lost)) < len(lost)

    places = [place_of(proof["seed"], winners[i]["user"]) for i in order]
    for i, before, after in zip(order[1:], places, places[1:]):
        if before >= after:
            wrong(f"winners[{i}].seat", "a better score got the seat behind a worse one")
    for i, winner in enumerate(winners):
        rank, prize = seats[winner["seat"] - 1]
        if winner["prizeRank"] != rank:
            wrong(f"winners[{i}].prizeRank", "this seat is for another prize")
        if winner["prizeId"] != prize:
            wrong(f"winners[{i}].prizeId", "this seat is for another prize")
    first = [winners[i]["score"] for i in order if winners[i]["round"] == 1]
    if proof["cutoff"] != (first[-1] if first else None):
        wrong("cutoffScore", "it is not the lowest score that won in round 1")
    return is_short, (places[-1] if places else None)


def check_entry(entry, proof, is_short, last_place):
    if entry["activity"] != proof["activity"]:
        wrong("activityId", "the proof is that of another activity")
    if entry["count"] != proof["count"]:
        wrong("entriesCount", "the proof has another number of entries")
    if entry["root"] != proof["root"]:
        wrong("entriesRoot", "the proof has another root")
    status, reason, eligibility = entry["state"]
    is_joined = status == "joined" and reason is None and eligibility in ELIGIBILITY
    is_rejected = status == "rejected" and eligibility is None and reason in REASON
    if not (is_joined and eligibility is not None or is_rejected and reason is not None):
        wrong("entry.status", "status, reason and eligibility do not go together")
    leaf = leaf_hash(entry["activity"], entry["salt"], entry["user"], entry["state"])
    leads_there = proof["tree"] == tree_of(entry["index"], proof["count"], leaf, entry["path"])
    if entry["score"] != score_of(proof["seed"], entry["user"]):
        if leads_there:
            wrong("score", "this is not the user's score")
        wrong("entry.userId", "neither the score nor the entry are this user's")
    if not leads_there:
        wrong("entry", "it does not lead to the root")
    wins = [winner for winner in proof["winners"] if winner["user"] == entry["user"]]
    if wins:
        if (wins[0]["index"], wins[0]["salt"]) != (entry["index"], entry["salt"]):
            wrong("entry", "the user's win is about another entry")
        if entry["rank"] != wins[0]["seat"]:
            wrong("rank", "it is not the seat of the user's win")
        return
    for winner in proof["winners"]:
        if winner["index"] == entry["index"] or (
                (winner["user"] < entry["user"]) != (winner["index"] < entry["index"])):
            wrong("entry.index", "the entries are not in the order of user ids")
    if entry["rank"] is not None:
        wrong("rank", "the user did not win")
    if entry["state"] == ELIGIBLE:
        if is_short:
            wrong("entry.eligibility", "it won nothing although a seat stayed empty")
        if last_place is not None and place_of(proof["seed"], entry["user"]) <= last_place:
            wrong("entry.eligibility", "it won nothing although a lower score did")


def verify(proof_text, entry_text=None):
    proof = read_proof(proof_text)
    try:
        entry = None if entry_text is None else read_entry(entry_text)
    except Wrong as fault:
        raise Wrong(f"entry file: {fault}") from fault
    seats = check_rules(proof)
    check_entries(proof)
    is_short, last_place = check_rounds(proof, seats)
    if entry is not None:
        try:
            check_entry(entry, proof, is_short, last_place)
        except Wrong as fault:
            raise Wrong(f"entry file: {fault}") from fault


def outcome(proof_text, entry_text=None):
    try:
        verify(proof_text, entry_text)
        return "ok"
    except Wrong as fault:
        return str(fault)


def main(arguments):
    if arguments == ["--batch"]:
        for line in sys.stdin:
            print(outcome(*json.loads(line)), flush=True)
        return 0
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    texts = []
    for name in arguments:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    answer = outcome(*texts)
    print(answer)
    return 0 if answer == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
