"""Ferret's engine (chimera-run) as an ACP agent that really asks.

    python -m agent_side.agents.ferret [--model MODEL] [--mode MODE]

The parts are the engine's own: Agent, ReAct, LoopConfig, LocalEnvironment and its five permission
modes. What is ours is the policy: where the engine's says ASK, it sends session/request_permission
and blocks the turn's thread until the answer, so that one answer decides one tool call (the
engine's pending_approval would run the rest of a batch unchecked). Whatever is not an allowing
answer denies.

Only the standard library and the engine are imported, so that it also runs in a Python that has the
engine but not the bridge. Keys and models: OPENAI_API_KEY, ANTHROPIC_API_KEY, FERRET_MODEL…, as
ferret reads them.
"""
