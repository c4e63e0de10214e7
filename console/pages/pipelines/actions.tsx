import { useState } from "react";
import type { Pipeline } from "../../../protocol/pipelines.ts";
import { useSession } from "../../gateway/session.ts";
import { CliLine, command } from "../../parts/cli-line.tsx";
import { Action, Check, DeletionForm, Dialog } from "../../parts/form.tsx";
import { Mono } from "../../parts/words.tsx";
import { pipelinePath } from "../addresses.ts";

interface PipelineActionsProps {
  readonly name: string;
  readonly state: Pipeline["state"];
  /** After it was stopped or started. */
  done(): void;
  deleted(): void;
}

/** What can be done with a pipeline: stop it or start it, and delete it. */
export function PipelineActions({ name, state, done, deleted }: PipelineActionsProps) {
  const verb = state === "stopped" ? "Start" : "Stop";
  const question = "Its jobs that have not ended are killed, and no commit makes one until it is started.";
  return (
    <>
      <Action
        label={`${verb} ${name}`}
        {...(verb === "Stop" && { question })}
        act={(gateway) => gateway.call(`${pipelinePath(name)}/${verb.toLowerCase()}`, { method: "POST" })}
        done={done}
      >
        {verb}
      </Action>
      <Dialog words="Delete…" title={`Delete ${name}`}>
        {(close) => <DeleteForm {...{ name, deleted }} leave={close} />}
      </Dialog>
    </>
  );
}

function DeleteForm({ name, deleted, leave }: { readonly name: string; deleted(): void; leave(): void }) {
  const { gateway } = useSession();
  const [keepOutput, setKeepOutput] = useState(false);
  const [force, setForce] = useState(false);
  const options = command`${keepOutput ? command` --keep-output` : []}${force ? command` --force` : []}`;
  async function remove(): Promise<void> {
    const query = { ...(keepOutput && { keepOutput }), ...(force && { force }) };
    await gateway.call(pipelinePath(name), { method: "DELETE", query });
    leave();
    deleted();
  }
  return (
    <DeletionForm {...{ name, leave }} verb="Delete the pipeline" act={remove}>
      <p>
        Its jobs end and are forgotten. {keepOutput ? "What it made stays" : "What it made goes, too"}: the
        branch that <Mono>{name}</Mono> writes to {keepOutput ? "becomes one like any other" : "is deleted"}.
      </p>
      <Check isSet={keepOutput} set={setKeepOutput}>
        keep what it made
      </Check>
      <Check isSet={force} set={setForce}>
        even if another pipeline reads that
      </Check>
      <CliLine line={command`sluice pipeline delete ${name}${options}`} />
    </DeletionForm>
  );
}
