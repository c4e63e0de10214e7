import type { ReactNode } from "react";
import type { Node, NodeList } from "../../protocol/runner.ts";
import { type Live, useLive } from "../gateway/session.ts";
import { CliLine, command } from "../parts/cli-line.tsx";
import { Action } from "../parts/form.tsx";
import { Asked, Figure, Heard, Page } from "../parts/page.tsx";
import { type Mark, StateMark } from "../parts/state.tsx";
import { Ago, counted, countText, sizeText } from "../parts/words.tsx";

/** The machines that run commands: whether each lives, what it has room for, what runs there, and what is wrong with it. */
export default function NodesPage() {
  const live = useLive<NodeList>("/nodes", { wholeAfterMs: 15_000 });
  return (
    <Page title="Nodes" cli={command`sluice node list`} live={live} aside={<Heard live={live} />}>
      <Asked live={live}>{({ nodes }) => <Shown nodes={nodes} live={live} />}</Asked>
    </Page>
  );
}

function Shown({ nodes, live }: { readonly nodes: readonly Node[]; readonly live: Live<NodeList> }) {
  if (nodes.length === 0) return <Empty />;
  const seen = nodes.map((node) => ({ node, condition: conditionOf(node) }));
  const bad = seen.filter(({ condition }) => condition.mark === "failure");
  const alive = nodes.filter((node) => node.live);
  const isIdle = ({ condition }: Seen): boolean => condition.mark === "success";
  const idle = seen.filter(isIdle);
  const isFolded = idle.length > MOST_IDLE;
  const entries = (some: readonly Seen[]): ReactNode =>
    some.map((each) => <NodeEntry key={each.node.name} {...each} live={live} />);
  return (
    <>
      <p className="headline">
        <Figure count={alive.length} word="live" />
        <Figure count={sum(alive.map(runningOn))} word="commands running" />
        <Figure count={nodes.filter(({ draining }) => draining).length} word="drained" />
        <Figure count={bad.length} word="in trouble" isBad={bad.length > 0} />
      </p>
      {alive.length === 0 && (
        <p className="reason bad">
          No node is live, so nothing runs. <CliLine line={command`sluice runner`} />
        </p>
      )}
      <ul className="nodes" aria-label="Nodes">
        {entries(
          seen
            .filter((each) => !isFolded || !isIdle(each))
            .sort((a, b) => a.condition.rank - b.condition.rank || runningOn(b.node) - runningOn(a.node)),
        )}
      </ul>
      {isFolded && (
        <details>
          <summary>{countText(idle.length)} nodes live, and nothing runs there</summary>
          <ul className="nodes" aria-label="Idle nodes">
            {entries(idle)}
          </ul>
        </details>
      )}
    </>
  );
}

/** More nodes on which nothing runs than these are a number. */
const MOST_IDLE = 8;

interface Seen {
  readonly node: Node;
  readonly condition: Condition;
}

/** How a node is, the worst of what can be said. */
interface Condition {
  readonly mark: Mark;
  readonly words: string;
  /** What this comes to, and what to do. */
  readonly more?: ReactNode;
  /** The least comes first. */
  readonly rank: number;
}

function conditionOf(node: Node): Condition {
  const { name, live, draining, executor, bounds, work } = node;
  const running = runningOn(node);
  const heard = (
    <>
      It was last heard of <Ago at={node.seenAt} />
    </>
  );
  if (draining && !live) {
    const more = <>{heard}. When it is back it gets no work until it is resumed.</>;
    return { mark: "killed", words: "drained and silent", rank: 2, more };
  }
  if (draining && work.some(({ workers }) => workers > 0)) {
    const more = (
      <>
        {counted(running, "command")} still {running === 1 ? "runs" : "run"} there, and nothing new begins. To
        wait for the end: <CliLine line={command`sluice node drain ${name} --wait`} />
      </>
    );
    return { mark: "waiting", words: "draining", rank: 2, more };
  }
  if (draining) {
    const more = "Nothing runs there: it can be switched off.";
    return { mark: "killed", words: "drained", rank: 2, more };
  }
  if (!live) {
    const more = (
      <>{heard}: its runner ended, or does not reach the gateway. What ran there goes to other nodes.</>
    );
    return { mark: "failure", words: "silent", rank: 1, more };
  }
  if (executor === "none") {
    const more = (
      <>
        Docker or Podman does not answer there. It takes work once one does. On that machine:{" "}
        <CliLine line={command`sluice doctor`} />
      </>
    );
    return { mark: "failure", words: "waits for a container engine", rank: 0, more };
  }
  if (work.some(({ trouble }) => trouble !== undefined)) {
    const more = "It tries again by itself, at least once a minute. Other nodes get the work meanwhile.";
    return { mark: "failure", words: "can't run some commands", rank: 0, more };
  }
  if (running === 0) return { mark: "success", words: "live, nothing runs", rank: 3 };
  const isFull = bounds !== undefined && running >= bounds.running;
  return { mark: "running", words: isFull ? "at work, no room for more" : "at work", rank: 3 };
}

interface NodeEntryProps extends Seen {
  readonly live: Live<NodeList>;
}

function NodeEntry({ node, condition: { mark, words, more }, live }: NodeEntryProps) {
  const { name, executor, capacity, bounds, work } = node;
  const workers = sum(work.map((each) => each.workers));
  return (
    <li>
      <div className="head">
        <StateMark mark={mark} words="" />
        <b className="name">{name}</b>
        <span className={mark === "failure" ? "bad" : "quiet"}>{words}</span>
        <NodeActions node={node} live={live} />
      </div>
      {(node.live ? work : [])
        .filter(({ trouble }) => trouble !== undefined)
        .map(({ pipeline, trouble }) => (
          <p key={pipeline} className="trouble">
            {pipeline}: {trouble}
          </p>
        ))}
      {more && <p>{more}</p>}
      {node.live && (
        <p className="room">
          <Room used={runningOn(node)} room={bounds?.running} one="command" what="running" />
          <Room used={workers} room={bounds?.workers} one="worker" what="" />
          <span className="quiet">
            {counted(capacity, "core")}
            {executor !== "none" && `, runs ${EXECUTOR_WORDS[executor] ?? executor}`}
          </span>
          <span className="quiet">
            last heard of <Ago at={node.seenAt} />
          </span>
        </p>
      )}
      {node.about && <AboutNode about={node.about} />}
      {node.live && work.length > 0 && <Work work={work} />}
    </li>
  );
}

/** Its release, its disk and its cache, as it last said. */
function AboutNode({ about: { version, disk, cache } }: { readonly about: NonNullable<Node["about"]> }) {
  const parts = [
    version && `Sluice ${version}`,
    disk && `${sizeText(disk.freeBytes)} of ${sizeText(disk.totalBytes)} of its disk free`,
    cache && `${sizeText(cache.usedBytes)} of ${sizeText(cache.maxBytes)} in its cache`,
  ];
  return <p className="quiet">{parts.filter(Boolean).join(", ")}</p>;
}

const EXECUTOR_WORDS: Readonly<Record<string, string>> = {
  process: "processes",
  docker: "containers of Docker",
  podman: "containers of Podman",
};

function NodeActions({ node, live }: Pick<NodeEntryProps, "node" | "live">) {
  const { name, draining } = node;
  const running = runningOn(node);
  const first =
    running === 0
      ? ""
      : `It finishes ${counted(running, "command")} that ${running === 1 ? "runs" : "run"}. `;
  const path = `/nodes/${encodeURIComponent(name)}/${draining ? "resume" : "drain"}`;
  return (
    <Action
      {...(!draining && { question: `${first}It gets nothing new until it is resumed.` })}
      act={(gateway) => gateway.call(path, { method: "POST" })}
      done={live.reload}
    >
      {`${draining ? "Resume" : "Drain"} ${name}`}
    </Action>
  );
}

interface RoomProps {
  readonly used: number;
  /** Undefined: the runner did not say. */
  readonly room: number | undefined;
  readonly one: string;
  readonly what: string;
}

function Room({ used, room, one, what }: RoomProps) {
  const of = room === undefined ? counted(used, one) : `${countText(used)} of ${counted(room, one)}`;
  return (
    <span className="progress">
      {room !== undefined && (
        <progress value={used} max={room} aria-label={`${one}s of what it has room for`} />
      )}
      <span>
        {of} {what}
      </span>
    </span>
  );
}

/** What runs there by pipeline; those that wait for work are a number. */
function Work({ work }: { readonly work: Node["work"] }) {
  const atWork = work.filter(({ running }) => running > 0);
  const idle = work.filter(({ running }) => running === 0).map(({ pipeline }) => pipeline);
  return (
    <>
      {atWork.length > 0 && (
        <ul className="work" aria-label="What runs there">
          {atWork
            .sort((a, b) => b.running - a.running || (a.pipeline < b.pipeline ? -1 : 1))
            .map(({ pipeline, workers, running }) => (
              <li key={pipeline}>
                <b>{pipeline}</b>{" "}
                <span className="quiet">
                  {countText(running)} running in {counted(workers, "worker")}
                </span>
              </li>
            ))}
        </ul>
      )}
      {idle.length > 0 && (
        <details className="quiet">
          <summary>
            {counted(idle.length, "pipeline")} {idle.length === 1 ? "waits" : "wait"} for work there
          </summary>
          <span>{idle.sort().join(", ")}</span>
        </details>
      )}
    </>
  );
}

function Empty() {
  return (
    <section className="empty" aria-label="First steps">
      <p>
        No node was heard of in the last day. A node is a machine on which a runner is at work: it runs the
        commands of pipelines.
      </p>
      <ol>
        <li>
          On this machine, with the key that you have: <CliLine line={command`sluice runner`} />
        </li>
        <li>
          On another one, first make a key for it and put what this prints into its environment:{" "}
          <CliLine line={command`sluice key create --level runner --description runners`} />
        </li>
        <li>
          If it does not start, this says what the machine lacks: <CliLine line={command`sluice doctor`} />
        </li>
      </ol>
    </section>
  );
}

function runningOn({ work }: Node): number {
  return sum(work.map(({ running }) => running));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
