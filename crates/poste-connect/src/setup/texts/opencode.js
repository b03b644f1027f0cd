// Put here by `poste setup opencode`; `poste setup opencode --remove` removes it.
// OpenCode runs no commands at its events, so this does: it passes each event to `poste hook` and returns the answer.
import { spawn } from "node:child_process"

const POSTE = "POSTE"
const ENVIRONMENT = "ENVIRONMENT"
const TIMEOUT_MS = 30000

// A missing or broken Poste must never break a session: every error counts as no answer.
const hook = (event, input, cwd, url) =>
  new Promise((resolve) => {
    try {
      const child = spawn(POSTE, ["hook", event, "--program", "opencode"], {
        cwd,
        env: { ...process.env, OPENCODE_URL: url, ...ENVIRONMENT },
        stdio: ["pipe", "pipe", "ignore"],
        timeout: TIMEOUT_MS,
      })
      let said = ""
      child.stdout.on("data", (data) => (said += data))
      child.stdin.on("error", () => {})
      child.on("error", () => resolve({}))
      child.on("close", () => resolve(understood(said)))
      child.stdin.end(JSON.stringify(input))
    } catch {
      resolve({})
    }
  })

// {"context": …} is for the model, {"block": …} keeps it from stopping.
const understood = (said) => {
  try {
    return JSON.parse(said) ?? {}
  } catch {
    return {}
  }
}

export const Poste = async ({ client, directory, serverUrl }) => {
  const begun = new Set()
  const held = new Set()
  const ask = (event, session, more = {}) =>
    hook(event, { session_id: session, cwd: directory, ...more }, directory, serverUrl?.toString() ?? "")

  // A subagent has its own context and is not bound, so it is told nothing.
  const helpers = new Map()
  const asked = async (id) => {
    try {
      return Boolean((await client.session.get({ path: { id } })).data?.parentID)
    } catch {
      return false
    }
  }
  const isHelper = (session) => {
    if (!helpers.has(session)) helpers.set(session, asked(session))
    return helpers.get(session)
  }

  // The text for a session when it begins, and again after it was compacted.
  const start = async (session) => {
    if (begun.has(session)) return undefined
    begun.add(session)
    return (await ask("session-start", session, { source: "startup" })).context
  }

  return {
    "chat.message": async ({ sessionID }, output) => {
      if (await isHelper(sessionID)) return
      // Its beginning shows whether a person wrote it, or it is why the session was kept from stopping.
      const prompt = output.parts.find((part) => part.type === "text" && !part.synthetic)?.text?.slice(0, 200)
      const texts = [await start(sessionID), (await ask("prompt", sessionID, { prompt })).context].filter(Boolean)
      if (!texts.length) return
      output.parts.push({
        id: `prt_poste${Date.now().toString(36)}${Math.random().toString(36).slice(2)}`,
        sessionID,
        messageID: output.message.id,
        type: "text",
        text: texts.join("\n\n"),
        synthetic: true,
      })
    },
    "tool.execute.after": async ({ sessionID, tool }, output) => {
      if (await isHelper(sessionID)) return
      const texts = [await start(sessionID), (await ask("tool", sessionID, { tool_name: tool })).context].filter(Boolean)
      if (texts.length) output.output = [output.output, ...texts].join("\n\n")
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (!session) return
      if (event.type === "session.compacted") begun.delete(session)
      if (event.type === "session.idle" && begun.has(session)) {
        // A turn that follows because the last one was held must say so, or it would be held forever.
        const { block } = await ask("stop", session, { stop_hook_active: held.delete(session) })
        if (block) {
          held.add(session)
          await client.session.promptAsync({ path: { id: session }, body: { parts: [{ type: "text", text: block }] } })
        }
      }
      if (event.type === "session.deleted") {
        helpers.delete(session)
        if (begun.delete(session)) await ask("session-end", session)
      }
    },
    dispose: async () => {
      await Promise.all([...begun].map((session) => ask("session-end", session)))
    },
  }
}
