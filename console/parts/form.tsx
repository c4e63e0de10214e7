import { type ComponentProps, type FormEvent, type ReactNode, useId, useRef, useState } from "react";
import type { Gateway } from "../gateway/gateway.ts";
import { faultText, useSession } from "../gateway/session.ts";

/* What a person does: buttons and forms that call the gateway, and the fields in them. */

/** Why something was not done, which is read out; nothing if it was. */
export function Fault({
  words,
  as: Element = "p",
}: {
  readonly words: string | undefined;
  readonly as?: "p" | "span";
}) {
  if (words === undefined) return null;
  return (
    <Element className="bad" role="alert">
      {words}
    </Element>
  );
}

type ButtonProps = Omit<ComponentProps<"button">, "type" | "onClick"> & { act(): unknown };

/** A button that submits no form. */
export function Button({ act, ...button }: ButtonProps) {
  return <button type="button" onClick={() => void act()} {...button} />;
}

/** A button that looks like a link. */
export function Plain(props: ButtonProps) {
  return <Button className="plain" {...props} />;
}

interface Act<A extends readonly unknown[]> {
  readonly isBusy: boolean;
  /** Why the last try was refused. */
  readonly fault: string | undefined;
  run(...given: A): Promise<void>;
}

/** Something that is done at the gateway, once at a time. */
export function useAct<A extends readonly unknown[]>(
  act: (gateway: Gateway, ...given: A) => Promise<unknown>,
): Act<A> {
  const session = useSession();
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  async function run(...given: A): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    setFault(undefined);
    try {
      await act(session.gateway, ...given);
    } catch (error) {
      setFault(faultText(error, session));
    }
    setBusy(false);
  }
  return { isBusy, fault, run };
}

interface Submission {
  readonly isBusy: boolean;
  submit(event: FormEvent): void;
  /** Why the last one was refused. */
  readonly fault: ReactNode;
}

/** A form whose submission is one call of the gateway. */
export function useSubmission(act: (gateway: Gateway) => Promise<unknown>): Submission {
  const { isBusy, fault, run } = useAct(act);
  function submit(event: FormEvent): void {
    event.preventDefault();
    void run();
  }
  return { isBusy, submit, fault: <Fault words={fault} /> };
}

interface Pages<P> {
  readonly pages: readonly P[];
  /** Whether more of them are to be had. */
  readonly hasMore: boolean;
  readonly fault: string | undefined;
  /** A button that gets the next one; null: there is none. */
  more(words?: string): ReactNode;
}

/** A list in pages. Those behind the first are of the state that it is of, and go with it. */
export function usePages<P extends { readonly next?: string | number | null | undefined }>(
  first: P | undefined,
  ask: (gateway: Gateway, after: NonNullable<P["next"]>) => Promise<P>,
): Pages<P> {
  const [rest, setRest] = useState<{ readonly of: P; readonly pages: readonly P[] }>();
  const behind = rest && rest.of === first ? rest.pages : [];
  const pages = first ? [first, ...behind] : [];
  const next: NonNullable<P["next"]> | undefined = pages.at(-1)?.next ?? undefined;
  const { isBusy, fault, run } = useAct(async (gateway) => {
    if (!first || next === undefined) return;
    const page = await ask(gateway, next);
    setRest({ of: first, pages: [...behind, page] });
  });
  return {
    pages,
    hasMore: next !== undefined,
    fault,
    more: (words = "More") =>
      next !== undefined && (
        <Button disabled={isBusy} act={run}>
          {isBusy ? "Asking the gateway…" : words}
        </Button>
      ),
  };
}

type FieldProps = Omit<ComponentProps<"input">, "id" | "onChange"> & {
  readonly label: ReactNode;
  /** Whether only those read the label who do not see what is beside the field. */
  readonly isLabelHidden?: boolean;
  set(text: string): void;
};

export function Field({ label, isLabelHidden = false, set, ...field }: FieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id} className={isLabelHidden ? "hidden" : undefined}>
        {label}
      </label>
      <input id={id} onChange={({ target }) => set(target.value)} {...field} />
    </>
  );
}

/** A field for a name or an id: no blanks around it, and nothing that corrects it. */
export function NameField({ set, ...field }: FieldProps) {
  const plain = { className: "mono", spellCheck: false, autoCapitalize: "off", autoComplete: "off" };
  return <Field {...plain} {...field} set={(text) => set(text.trim())} />;
}

/** A field that finds what has a text. */
export function SearchField(props: FieldProps) {
  return <Field type="search" spellCheck={false} autoComplete="off" {...props} />;
}

interface CheckProps {
  readonly isSet: boolean;
  readonly disabled?: boolean;
  readonly children: ReactNode;
  set(isSet: boolean): void;
}

export function Check({ isSet, disabled, children, set }: CheckProps) {
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={isSet}
        disabled={disabled}
        onChange={({ target }) => set(target.checked)}
      />{" "}
      {children}
    </label>
  );
}

interface DialogProps {
  /** What the button says that opens it. */
  readonly words: string;
  readonly title: string;
  readonly className?: string;
  /** What is in it, made each time that it opens. */
  children(close: () => void): ReactNode;
}

/** A button that opens a dialog. */
export function Dialog({ words, title, className, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const close = (): void => dialog.current?.close();
  function open(): void {
    setOpen(true);
    dialog.current?.showModal();
  }
  return (
    <>
      <Button aria-haspopup="dialog" aria-label={title} act={open}>
        {words}
      </Button>
      <dialog ref={dialog} className={className} aria-labelledby={id} onClose={() => setOpen(false)}>
        <div className="title">
          <h2 id={id}>{title}</h2>
          <Plain act={close}>Close</Plain>
        </div>
        {isOpen && children(close)}
      </dialog>
    </>
  );
}

interface ActionProps {
  readonly children: string;
  /** What it says to who does not see what it is beside, if that is more. */
  readonly label?: string;
  /** What it comes to, as a question, which may have to be found out; asked before it is done. Absent: it is done at once. */
  readonly question?: string | ((gateway: Gateway) => Promise<ReactNode>);
  act(gateway: Gateway): Promise<unknown>;
  /** After it was done. */
  done?(): void;
}

/** A button that does something at the gateway, says so while it does, and tells why not if it was refused. */
export function Action({ children, label, question, act, done }: ActionProps): ReactNode {
  const [asked, setAsked] = useState<ReactNode>();
  const doing = useAct(async (gateway) => {
    setAsked(undefined);
    await act(gateway);
    done?.();
  });
  const asking = useAct(async (gateway) => {
    if (typeof question === "function") setAsked(await question(gateway));
  });
  function begin(): void {
    if (question === undefined) void doing.run();
    else if (typeof question === "string") setAsked(question);
    else void asking.run();
  }
  return (
    <span className="action">
      {asked !== undefined ? (
        <>
          <span>{asked}</span>
          <Button className="main" act={doing.run}>
            {children}
          </Button>
          {/* biome-ignore lint/a11y/noAutofocus: it takes the place of the button that was pressed, and undoes nothing. */}
          <button type="button" autoFocus onClick={() => setAsked(undefined)}>
            Cancel
          </button>
        </>
      ) : (
        <Button aria-label={label} disabled={doing.isBusy || asking.isBusy} act={begin}>
          {children}
        </Button>
      )}
      <Fault words={doing.fault ?? asking.fault} as="span" />
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
  act(gateway: Gateway): Promise<void>;
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
  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    if (isTyped) await act(gateway);
  });
  const label = (
    <>
      Type <b className="mono">{name}</b> to delete it
    </>
  );
  return (
    <form onSubmit={submit} onKeyDown={({ key }) => key === "Escape" && leave()}>
      {children}
      {/* The button that was pressed is gone, and this is what comes next. */}
      <NameField label={label} value={typed} set={setTyped} autoFocus />
      <p className="actions">
        <button type="submit" className="danger" disabled={isBusy || !isTyped}>
          {verb}
        </button>
        <Button act={leave}>Cancel</Button>
      </p>
      {fault}
    </form>
  );
}
