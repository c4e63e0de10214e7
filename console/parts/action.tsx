import { type ReactNode, useId, useState } from "react";
import { faultText, useSession } from "../gateway/session.tsx";
import { useSubmission } from "./form.tsx";

interface ActionProps {
  readonly children: string;
  /** What it says to who does not see what it is beside, if that is more. */
  readonly label?: string;
  /** What it comes to, as a question; asked before it is done. Absent: it is done at once. */
  readonly question?: string;
  act(): Promise<void>;
}

/** A button that does something at the gateway, says so while it does, and tells why not if it was refused. */
export function Action({ children, label, question, act }: ActionProps): ReactNode {
  const [step, setStep] = useState<"idle" | "asked" | "busy">("idle");
  const [fault, setFault] = useState<string>();
  const session = useSession();
  async function run(): Promise<void> {
    setStep("busy");
    setFault(undefined);
    try {
      await act();
    } catch (error) {
      setFault(faultText(error, session));
    }
    setStep("idle");
  }
  const isAsked = step === "asked" && question !== undefined;
  return (
    <span className="action">
      {isAsked ? (
        <>
          <span>{question}</span>
          <button type="button" className="main" onClick={() => void run()}>
            {children}
          </button>
          {/* biome-ignore lint/a11y/noAutofocus: it takes the place of the button that was pressed, and undoes nothing. */}
          <button type="button" autoFocus onClick={() => setStep("idle")}>
            Leave it
          </button>
        </>
      ) : (
        <button
          type="button"
          aria-label={label}
          disabled={step === "busy"}
          onClick={() => (question === undefined ? void run() : setStep("asked"))}
        >
          {children}
        </button>
      )}
      {fault !== undefined && (
        <span className="bad" role="alert">
          {fault}
        </span>
      )}
    </span>
  );
}

interface DeletionProps {
  /** What it deletes, as the person types it. */
  readonly name: string;
  /** What it comes to. */
  readonly children: ReactNode;
  /** What the button says that does it. */
  readonly verb?: string;
  act(): Promise<void>;
}

/** A button that deletes what nobody can bring back, once its name is typed. */
export function Deletion(props: DeletionProps): ReactNode {
  const [step, setStep] = useState<"idle" | "asked" | "left">("idle");
  if (step === "asked") {
    return (
      <div className="deletion">
        <DeletionForm {...props} leave={() => setStep("left")} />
      </div>
    );
  }
  return (
    <button
      type="button"
      // biome-ignore lint/a11y/noAutofocus: whoever left it goes on from where they were.
      autoFocus={step === "left"}
      onClick={() => setStep("asked")}
      aria-label={`Delete ${props.name}`}
    >
      Delete
    </button>
  );
}

/** Asks for the name before it deletes: that is more than a click that went wrong. */
export function DeletionForm({
  name,
  children,
  verb = "Delete it",
  act,
  leave,
}: DeletionProps & { leave(): void }): ReactNode {
  const [typed, setTyped] = useState("");
  const isTyped = typed.trim() === name;
  const { isBusy, submit, fault } = useSubmission(async () => {
    if (isTyped) await act();
  });
  const field = useId();
  return (
    <form onSubmit={submit} onKeyDown={({ key }) => key === "Escape" && leave()}>
      {children}
      <label htmlFor={field}>
        Type <b className="mono">{name}</b> to delete it
      </label>
      <input
        id={field}
        className="mono"
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
        // biome-ignore lint/a11y/noAutofocus: the button that was pressed is gone, and this is what comes next.
        autoFocus
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
      />
      <p className="actions">
        <button type="submit" className="danger" disabled={isBusy || !isTyped}>
          {verb}
        </button>
        <button type="button" onClick={leave}>
          Leave it
        </button>
      </p>
      {fault}
    </form>
  );
}
