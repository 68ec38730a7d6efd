// Drives an agent with the official SDK, which checks every message against its schema, and prints what happened, one JSON object a line.
// Usage: node client.mjs <agent> <arg>... ; the folder of the session is the current one.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const say = (what, value) => console.log(JSON.stringify({ what, value }));
const { agent, client: at } = acp.methods;

// with runs f on a connection to a new process of the agent.
async function connected(f) {
  const [command, ...args] = process.argv.slice(2);
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const state = { updates: [], permit: null, asked: () => {} };
  const app = acp
    .client({ name: "sdk-test" })
    .onRequest(at.session.requestPermission, async ({ params }) => {
      state.asked(params);
      return state.permit(params);
    })
    .onNotification(at.session.update, ({ params }) => {
      state.updates.push(params.update);
    });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (ctx) => {
    const init = await ctx.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
      clientInfo: { name: "sdk-test", version: "1" },
    });
    say("initialize", { version: init.protocolVersion, load: init.agentCapabilities.loadSession, agent: init.agentInfo.name });
    await f(ctx, state);
  });
  child.stdin.end();
  await new Promise((resolve) => (child.exitCode === null ? child.on("exit", resolve) : resolve()));
  say("exit", child.exitCode);
}

const text = (updates, kind) =>
  updates.filter((u) => u.sessionUpdate === kind && u.content.type === "text").map((u) => u.content.text).join("");
const select = (kind) => (p) => ({ outcome: { outcome: "selected", optionId: p.options.find((o) => o.kind === kind).optionId } });
const prompt = (ctx, sessionId, words) => ctx.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });

let id;
await connected(async (ctx, state) => {
  const made = await ctx.request(agent.session.new, { cwd: process.cwd(), mcpServers: [] });
  id = made.sessionId;
  say("new", { mode: made.modes.currentModeId, options: made.configOptions.map((o) => o.id) });

  let r = await prompt(ctx, id, "hello");
  say("prompt", { stop: r.stopReason, text: text(state.updates, "agent_message_chunk") });

  state.permit = select("allow_once");
  r = await prompt(ctx, id, "write");
  say("allowed", { stop: r.stopReason, calls: state.updates.filter((u) => u.sessionUpdate === "tool_call_update").map((u) => u.status) });

  state.updates = [];
  state.permit = select("reject_once");
  r = await prompt(ctx, id, "write again");
  say("rejected", { stop: r.stopReason, calls: state.updates.filter((u) => u.sessionUpdate === "tool_call_update").map((u) => u.status) });

  state.updates = [];
  const asked = new Promise((resolve) => (state.asked = resolve));
  state.permit = () => new Promise(() => {});
  const running = prompt(ctx, id, "write and be cancelled");
  await asked;
  await ctx.notify(agent.session.cancel, { sessionId: id });
  r = await running;
  say("cancelled", { stop: r.stopReason });

  const list = await ctx.request(agent.session.list, { cwd: process.cwd() });
  say("list", list.sessions.map((s) => s.sessionId === id));
  const chosen = await ctx.request(agent.session.setMode, { sessionId: id, modeId: "plan" });
  say("mode", chosen);
});

await connected(async (ctx, state) => {
  const loaded = await ctx.request(agent.session.load, { sessionId: id, cwd: process.cwd(), mcpServers: [] });
  say("load", { mode: loaded.modes.currentModeId, user: text(state.updates, "user_message_chunk"), agent: text(state.updates, "agent_message_chunk") });
});

await connected(async (ctx, state) => {
  await ctx.request(agent.session.resume, { sessionId: id, cwd: process.cwd(), mcpServers: [] });
  const before = state.updates.filter((u) => u.sessionUpdate.endsWith("_chunk")).length;
  const r = await prompt(ctx, id, "go on");
  say("resume", { before, stop: r.stopReason, text: text(state.updates, "agent_message_chunk") });
});
