"""What several tests do with questions."""

from fakes.running import asks


def parallel(count, **call):
    """Ask that many questions at once, then wait for all of them."""
    asked = [
        asks({"rawInput": {"command": f"make {n}"}, **call}, n, wait=False)
        for n in range(1, count + 1)
    ]
    return [*asked, *({"await": n} for n in range(1, count + 1))]


def chosen(agent):
    """What the agent was answered, by the numbers of its questions."""
    return {id_: answer["outcome"].get("optionId") for id_, answer in agent.answers().items()}


async def all_asked(person, count):
    """Wait for that many questions and give them by their commands."""
    await person.until(lambda _: len(questions(person)) >= count)
    return {q["params"]["toolCall"]["rawInput"]["command"]: q for q in questions(person)}


def questions(person):
    return [m for m in person.got if m["method"] == "session/request_permission"]


def is_changed(kind, **fields):
    return lambda m: (
        m["method"] == "_bridge/changed" and fields.items() <= m["params"].get(kind, {}).items()
    )


def is_question_of(id_):
    return lambda m: m.get("params", {}).get("toolCall", {}).get("toolCallId") == f"call-{id_}"


async def opened_question(person, session, *, but=None):
    """Wait for a question that is open in a session, other than one."""
    known = but["id"] if but else ""
    while True:
        seen = len(person.got)
        for record in await person.round_trips(session=session):
            if record["id"] != known:
                return record
        await person.until(is_changed("roundTrip", sessionId=session), after=seen)


async def closed_records(person, session, count):
    """Wait until that many questions are closed in the store too; give them by their ids."""
    while True:
        seen = len(person.got)
        records = await person.round_trips("all", session)
        if [record["state"] for record in records] == ["closed"] * count:
            return {record["id"]: record for record in records}
        await person.until(is_changed("roundTrip", sessionId=session), after=seen)
