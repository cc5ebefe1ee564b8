"""A scripted LLM on loopback that speaks four vendors' wire formats.

    PYTHONPATH=tests python -m agents.fakellm [--script JSON] [--log FILE]

It prints its address, then serves until it is ended:

POST /v1/messages                                Anthropic Messages
POST /v1/chat/completions                        OpenAI chat completions
POST /v1/responses                               OpenAI responses
POST /v1beta/models/{m}:streamGenerateContent    Gemini

The first answers of a turn are streamed text and one tool call each; after ``calls`` tool results
comes streamed text and the end of the turn. The tool is picked out of those that the request
offers and its arguments are filled by its schema, so one script serves every agent. A request
without tools (titles, summaries) gets text. ``FAKE{...}`` in the last user message overrides the
script; script.py lists what it may say.
"""
