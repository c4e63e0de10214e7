import { type FormEvent, type InputHTMLAttributes, type ReactNode, useId, useState } from "react";
import { faultText, useSession } from "../gateway/session.tsx";
import { Fault } from "./broken.tsx";

interface Submission {
  readonly isBusy: boolean;
  submit(event: FormEvent): void;
  /** Why the last one was refused. */
  readonly fault: ReactNode;
}

/** A form whose submission is one call of the gateway. */
export function useSubmission(act: () => Promise<void>): Submission {
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const session = useSession();
  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    if (isBusy) return;
    setFault(undefined);
    setBusy(true);
    try {
      await act();
    } catch (error) {
      setFault(faultText(error, session));
    }
    setBusy(false);
  }
  return {
    isBusy,
    submit: (event) => void submit(event),
    fault: <Fault words={fault} />,
  };
}

type NameFieldProps = Omit<InputHTMLAttributes<HTMLInputElement>, "id" | "className" | "onChange"> & {
  readonly label: string;
  /** Whether only those read the label who do not see what is beside the field. */
  readonly isLabelHidden?: boolean;
  set(name: string): void;
};

/** A field for a name or an id: no blanks around it, and nothing that corrects it. */
export function NameField({ label, isLabelHidden = false, set, ...field }: NameFieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id} className={isLabelHidden ? "hidden" : undefined}>
        {label}
      </label>
      <input
        id={id}
        className="mono"
        onChange={({ target }) => set(target.value.trim())}
        spellCheck={false}
        autoCapitalize="off"
        {...field}
      />
    </>
  );
}
