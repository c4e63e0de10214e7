import { chmod, lstat } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { finished } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Container, ContainerCreateOptions } from "dockerode";
import { z } from "zod";
import { jsonOf } from "../../../protocol/json.ts";
import type { LogStream } from "../../../protocol/runner.ts";
import { errorCode, messageOf } from "../../lib/fault.ts";
import { outOfMemory } from "../../limits/limits.ts";
import {
  type Command,
  KILLED,
  NodeCondition,
  noCommand,
  noFolder,
  type Run,
  type TakeOutput,
} from "../executor.ts";
import { LogTail } from "../log-fifos.ts";
import { seesAllFiles } from "./engine/disposal.ts";
import { asCondition, ask, type Engine, EngineRefusal, isNoProgram, refused } from "./engine/engine.ts";
import { type AgentEngine, imageEnv, type Made, makeContainer, type WorkerTerms } from "./make-container.ts";
import type { SecretMountpoint } from "./secrets.ts";

/**
 * Runs a command as the first process of a container of its own, for images in which no init can run, or on the
 * terminal of this process. It costs some hundred milliseconds. Throws NodeCondition and EngineRefusal.
 */
export async function runAlone(
  agentEngine: AgentEngine,
  worker: WorkerTerms,
  { command, secrets }: { command: Command; secrets: readonly SecretMountpoint[] },
): Promise<Run> {
  const { cmd, workingDir, pfs, signal } = command;
  await chmod(pfs, 0o755);
  await chmod(join(pfs, "out"), 0o777);
  const make = (config: ContainerCreateOptions) =>
    makeContainer(agentEngine, worker, { pfs, secrets, config, signal });
  if (workingDir !== undefined && !(await isFolder(agentEngine, { workingDir, pfs, make }))) {
    return { kind: "not-started", reason: noFolder(workingDir), log: "" };
  }
  // Engines take an empty entry point for that of the image.
  if (!cmd[0]) return { kind: "not-started", reason: noCommand(""), log: "" };
  const made = await make(configOf(command, agentEngine.engine));
  command.onImage?.(made.image);
  try {
    return await runIn(agentEngine, made, command);
  } finally {
    await agentEngine.disposal.remove(made.name);
  }
}

function configOf(command: Command, { rootless }: Engine): ContainerCreateOptions {
  const [name = "", ...words] = command.cmd;
  return {
    Entrypoint: [name],
    Cmd: words,
    Env: Object.entries(imageEnv(command)).map(([key, value]) => `${key}=${value}`),
    ...(command.workingDir !== undefined && { WorkingDir: command.workingDir }),
    ...(command.terminal && { Tty: true }),
    ...{ OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true },
    // Else its files would be another user's, and nobody in there could open them to the agent.
    ...(!seesAllFiles() && { User: rootless ? "0:0" : `${process.getuid?.()}:${process.getgid?.()}` }),
  };
}

type Make = (config: ContainerCreateOptions) => Promise<Made>;

/** Whether the working directory is there. Asked before the run, because engines would make it. */
async function isFolder(
  { engine, disposal }: AgentEngine,
  { workingDir, pfs, make }: { workingDir: string; pfs: string; make: Make },
): Promise<boolean> {
  if (workingDir === "/") return true;
  // A container that does not run does not show what is mounted.
  const [, first, ...names] = workingDir.split("/");
  if (first === "pfs") return isFolderIn(pfs, names);
  const { name, container } = await make({ Entrypoint: ["/"] });
  try {
    const path = `${workingDir}/.`;
    const answer: IncomingMessage = await ask(engine, () => container.infoArchive({ path }));
    answer.resume();
    // Podman answers `<file>/.` as well: the kind tells.
    const header = Buffer.from(String(answer.headers["x-docker-container-path-stat"]), "base64");
    return PathStat.parse(JSON.parse(header.toString())).mode >= MODE_FOLDER;
  } catch (error) {
    if (error instanceof EngineRefusal) return false;
    throw error;
  } finally {
    await disposal.remove(name);
  }
}

/** Looked for on this machine, where a link would lead out of `/pfs`: none is followed. */
async function isFolderIn(pfs: string, names: readonly string[]): Promise<boolean> {
  let path = pfs;
  for (const name of names) {
    path = join(path, name);
    const entry = await lstat(path).catch(() => undefined);
    if (!entry?.isDirectory()) return false;
  }
  return true;
}

const PathStat = z.object({ mode: z.number() });
/** The bit of a folder in Go's file modes. */
const MODE_FOLDER = 2 ** 31;

async function runIn(
  { engine, limits, owner }: AgentEngine,
  { container }: Made,
  { cmd, stdin, onOutput, joined, terminal, signal }: Command,
): Promise<Run> {
  const tail = new LogTail();
  const kill = () => void ask(engine, () => container.kill()).catch(() => undefined);
  let input: Socket | undefined;
  let leaveTerminal = () => {};
  try {
    const output = await attach(engine, { id: container.id, streams: "stdout=1&stderr=1" });
    const printed = terminal
      ? endOf(output)
      : readAll(output, (bytes, stream) => {
          tail.add(bytes);
          onOutput?.(bytes, joined ? "stdout" : stream);
        });
    input = await attach(engine, { id: container.id, streams: "stdin=1" });
    // A command that ends before it has read its input is no fault.
    input.on("error", () => undefined);
    input.resume();
    await ask(engine, () => container.start());
    signal.addEventListener("abort", kill, { once: true });
    if (signal.aborted) kill();
    if (terminal) leaveTerminal = showOnTerminal(engine, { container, input, output });
    else input.end(stdin ?? "");
    await printed;
    const state = await stateAtEnd(engine, container);
    // Podman does not tell why a container was killed.
    const likely =
      engine.kind === "podman" &&
      state.ExitCode === KILLED &&
      limits.memoryBytes !== undefined &&
      !signal.aborted;
    const cause = state.OOMKilled || likely ? { cause: outOfMemory(limits, owner) } : {};
    return { kind: "exited", code: state.ExitCode, log: tail.text(), ...cause };
  } catch (error) {
    if (!(error instanceof EngineRefusal)) throw error;
    if (!isNoProgram(error.message)) throw asCondition(error, engine);
    return { kind: "not-started", reason: noCommand(cmd[0] ?? ""), log: tail.text() };
  } finally {
    signal.removeEventListener("abort", kill);
    leaveTerminal();
    input?.destroy();
  }
}

function readAll(output: Socket, onOutput: TakeOutput): Promise<void> {
  const frames = new Frames(onOutput);
  output.on("data", (bytes: Buffer) => frames.add(bytes));
  return endOf(output);
}

/** If the engine goes away, asking for the end of the container will say so. */
async function endOf(output: Socket): Promise<void> {
  await finished(output).catch(() => undefined);
}

const FIRST_LOOK_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** Asks until it has ended: the engines' own wait may look only four times a second. */
async function stateAtEnd(engine: Engine, container: Made["container"]) {
  for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    const { State } = await ask(engine, () => container.inspect());
    if (!State.Running && State.Status !== "created") return State;
    await delay(pauseMs);
  }
}

/**
 * Joins a container's terminal with that of this process. Ours is raw meanwhile: each key, Ctrl-C too, goes to the
 * container's, which knows what it means there. Returns what gives our terminal back as it was.
 */
function showOnTerminal(
  engine: Engine,
  { container, input, output }: { container: Container; input: Socket; output: Socket },
): () => void {
  const { stdin, stdout } = process;
  // The container may just be ending. Its terminal then needs no size.
  const resize = () =>
    void ask(engine, () => container.resize({ h: stdout.rows, w: stdout.columns })).catch(() => undefined);
  const type = (bytes: Buffer) => void input.write(bytes);
  const show = (bytes: Buffer) => void stdout.write(bytes);
  stdin.setRawMode?.(true);
  stdin.on("data", type).resume();
  output.on("data", show);
  stdout.on("resize", resize);
  resize();
  return () => {
    stdout.off("resize", resize);
    stdin.off("data", type).pause();
    stdin.setRawMode?.(false);
  };
}

const HEADER_BYTES = 8;
/** The first byte of a frame's header, if it is of stderr. */
const OF_STDERR = 2;

/**
 * Connects to the stdin or to the output of a container that has not been started yet. By hand, because the library
 * posts its options along, which Podman hands to the command as its first input. Never to both at once: if a command
 * does not read its input, Podman prints that among the command's output. Throws NodeCondition and EngineRefusal.
 */
function attach(
  { kind, socket }: Engine,
  { id, streams }: { id: string; streams: "stdin=1" | "stdout=1&stderr=1" },
): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const call = request({
    method: "POST",
    socketPath: socket,
    path: `/containers/${id}/attach?stream=1&${streams}`,
    headers: { Connection: "Upgrade", Upgrade: "tcp", "Content-Length": 0 },
  });
  call.once("upgrade", (_, stream: Socket, head: Buffer) => {
    if (head.length > 0) stream.unshift(head);
    resolve(stream);
  });
  call.once("response", (answer) => {
    // Podman looks for the command's program already here.
    const refuse = (words: string) =>
      reject(refused(answer.statusCode ?? 0, { answer: jsonOf(words), words }));
    text(answer).then(refuse, reject);
  });
  call.once("error", (error) =>
    reject(
      new NodeCondition(`${kind} could not connect to a container: ${errorCode(error) ?? messageOf(error)}`),
    ),
  );
  call.end();
  return promise;
}

/** What comes on stdout and stderr, out of the frames of an attached stream. */
class Frames {
  #pending: Buffer = Buffer.alloc(0);
  /** Bytes of the present frame that are still to come. */
  #left = 0;
  #stream: LogStream = "stdout";
  readonly #onOutput: TakeOutput;

  constructor(onOutput: TakeOutput) {
    this.#onOutput = onOutput;
  }

  add(bytes: Buffer): void {
    let rest = this.#pending.length > 0 ? Buffer.concat([this.#pending, bytes]) : bytes;
    while (rest.length > 0) {
      if (this.#left === 0) {
        if (rest.length < HEADER_BYTES) break;
        this.#left = rest.readUInt32BE(4);
        this.#stream = rest[0] === OF_STDERR ? "stderr" : "stdout";
        rest = rest.subarray(HEADER_BYTES);
      }
      const part = rest.subarray(0, this.#left);
      if (part.length > 0) this.#onOutput(part, this.#stream);
      this.#left -= part.length;
      rest = rest.subarray(part.length);
    }
    this.#pending = Buffer.from(rest);
  }
}
