import { type ReactNode, useId, useRef, useState } from "react";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import { useSession } from "../../gateway/session.tsx";
import { Action, DeletionForm } from "../../parts/action.tsx";
import { CliLine, command } from "../../parts/cli-line.tsx";

interface Acted {
  readonly name: string;
  readonly state: Pipeline["state"];
  /** After something was done. */
  done(): void;
}

/** What can be done with a pipeline: stop it or start it, and delete it. */
export function PipelineActions({ name, state, done, deleted }: Acted & { deleted(): void }) {
  return (
    <>
      <StopStart {...{ name, state, done }} />
      <Delete name={name} done={deleted} />
    </>
  );
}

function StopStart({ name, state, done }: Acted) {
  const { gateway } = useSession();
  const path = `/pipelines/${encodeURIComponent(name)}`;
  async function change(act: "stop" | "start"): Promise<void> {
    await gateway.call<Pipeline>(`${path}/${act}`, { method: "POST" });
    done();
  }
  if (state === "stopped") {
    return (
      <Action label={`Start ${name}`} act={() => change("start")}>
        Start
      </Action>
    );
  }
  return (
    <Action
      label={`Stop ${name}`}
      question="Its jobs that have not ended are killed, and no commit makes one until it is started."
      act={() => change("stop")}
    >
      Stop
    </Action>
  );
}

function Delete({ name, done }: { readonly name: string; done(): void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  const title = useId();
  return (
    <>
      <button
        type="button"
        aria-label={`Delete ${name}`}
        onClick={() => {
          dialog.current?.showModal();
          setOpen(true);
        }}
      >
        Delete…
      </button>
      <dialog ref={dialog} aria-labelledby={title} onClose={() => setOpen(false)}>
        <h2 id={title}>Delete {name}</h2>
        {isOpen && <DeleteForm {...{ name, done }} leave={() => dialog.current?.close()} />}
      </dialog>
    </>
  );
}

function DeleteForm({ name, done, leave }: { readonly name: string; done(): void; leave(): void }) {
  const { gateway } = useSession();
  const [keepOutput, setKeepOutput] = useState(false);
  const [force, setForce] = useState(false);
  const options = command`${keepOutput ? command` --keep-output` : []}${force ? command` --force` : []}`;
  async function remove(): Promise<void> {
    await gateway.call(`/pipelines/${encodeURIComponent(name)}`, {
      method: "DELETE",
      query: { ...(keepOutput && { keepOutput }), ...(force && { force }) },
    });
    leave();
    done();
  }
  return (
    <DeletionForm {...{ name, leave }} verb="Delete the pipeline" act={remove}>
      <p>
        Its jobs end and are forgotten. {keepOutput ? "What it made stays" : "What it made goes, too"}: the
        branch that <span className="mono">{name}</span> writes to{" "}
        {keepOutput ? "becomes one like any other" : "is deleted"}.
      </p>
      <label className="check">
        <input
          type="checkbox"
          checked={keepOutput}
          onChange={({ target }) => setKeepOutput(target.checked)}
        />{" "}
        keep what it made
      </label>
      <label className="check">
        <input type="checkbox" checked={force} onChange={({ target }) => setForce(target.checked)} /> even if
        another pipeline reads that
      </label>
      <CliLine line={command`sluice pipeline delete ${name}${options}`} />
    </DeletionForm>
  );
}
