"""The demo: a scripted ACP agent that does small real work, for trying the bridge without a model.

    python -m agent_side.agents.demo

A program of its own, standard library only, without network. It works in the folder of the session
and asks before it writes or runs anything. The prompt chooses what it does:

    run COMMAND       asks, then runs that very command
    edit [FILE]       asks with a diff, then adds a line to the file (hello.txt)
    read FILE         reads it
    plan              shows a plan and works it off
    parallel [N]      asks N questions at once, in whatever order they are answered
    stream N [MS]     N pieces of text, one every MS milliseconds
    choose            asks with a form, where the client has forms
    fail              ends the turn with an error
    anything else     a tour: thinks, plans, reads, edits, runs

Environment: CHIMERA_DEMO_PACE_MS, the pause between pieces of text (15), and XDG_STATE_HOME, where
its sessions are kept so that session/load can replay them.
"""
