import type { Job, PipelineGraph } from "../../protocol/pipelines.ts";

/** What a mark can say. Each has a colour and a shape of its own. */
export const MARK_WORDS = {
  waiting: "waits",
  running: "runs",
  egressing: "is pushed",
  success: "succeeded",
  failure: "failed",
  killed: "was stopped",
  skipped: "skipped",
  idle: "has no job yet",
} as const;

export type Mark = keyof typeof MARK_WORDS;

const SHAPES: Readonly<Record<Mark, React.ReactNode>> = {
  waiting: <path d="M8 2 14 8 8 14 2 8Z" fill="none" strokeWidth="2" stroke="currentColor" />,
  running: (
    <g fill="none" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round">
      <circle cx="8" cy="8" r="6" strokeOpacity=".3" />
      <path d="M8 2a6 6 0 0 1 6 6" />
    </g>
  ),
  egressing: <path d="M8 2.5v11M3.5 7 8 2.5 12.5 7" fill="none" stroke="currentColor" strokeWidth="2.2" />,
  success: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="m4.8 8.2 2.3 2.3 4.2-4.6" fill="none" className="cut" strokeWidth="1.8" />
    </>
  ),
  failure: (
    <>
      <path d="M1.5 1.5h13v13h-13Z" fill="currentColor" />
      <path d="m5 5 6 6m0-6-6 6" fill="none" className="cut" strokeWidth="1.9" />
    </>
  ),
  killed: (
    <>
      <path d="M5 1h6l4 4v6l-4 4H5l-4-4V5Z" fill="currentColor" />
      <path d="M4.5 8h7" fill="none" className="cut" strokeWidth="2" />
    </>
  ),
  skipped: <path d="M3 3.5 8 8l-5 4.5Zm6 0L14 8l-5 4.5Z" fill="currentColor" />,
  idle: (
    <g fill="none" stroke="currentColor" strokeWidth="1.6" strokeDasharray="2.4 2.4">
      <circle cx="8" cy="8" r="6" />
    </g>
  ),
};

/** The shape of a mark, in a drawing of its own size: 16 by 16. Its colour is that of the text. */
export function MarkShape({ mark }: { readonly mark: Mark }) {
  return SHAPES[mark];
}

interface StateMarkProps {
  readonly mark: Mark;
  /** "": they stand beside it. */
  readonly words?: string;
}

/** A state by colour and shape, and in words for who can't see it. */
export function StateMark({ mark, words = MARK_WORDS[mark] }: StateMarkProps) {
  return (
    <span className={`mark ${mark}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {SHAPES[mark]}
      </svg>
      <span className="hidden">{words}</span>
    </span>
  );
}

export function markOf({
  state,
  waitsFor,
}: Pick<Job, "state"> & { readonly waitsFor?: string | undefined }): Mark {
  return waitsFor === undefined ? (state === "starting" ? "running" : state) : "waiting";
}

/** How a pipeline stands: by what it is at, else by whether it is stopped, else by how its newest job ended. */
export function pipelineMark({
  state,
  job,
  underWay,
}: Pick<PipelineGraph["pipelines"][number], "state" | "job" | "underWay">): Mark {
  if (underWay) return markOf(underWay);
  if (state === "stopped") return "killed";
  return job ? markOf(job) : "idle";
}
