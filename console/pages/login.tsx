import { type ClipboardEvent, type FormEvent, useEffect, useId, useRef, useState } from "react";
import { GatewayError } from "../../protocol/requests.ts";
import type { Entered } from "../gateway/signer.ts";
import { CliLine, command } from "../parts/cli-line.tsx";
import { NameField } from "../parts/form.tsx";
import { Wordmark } from "../parts/shell.tsx";

interface LoginProps {
  /** Why the last session ended. */
  readonly farewell: string | undefined;
  /** Resolves once the key has proved good. */
  begin(key: Entered): Promise<void>;
}

/** Asks for a key, in fields that password managers know. */
export function Login({ farewell, begin }: LoginProps) {
  const [id, setId] = useState("");
  const [secret, setSecret] = useState("");
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const first = useRef<HTMLInputElement>(null);
  const faultId = useId();

  useEffect(() => {
    document.title = "Log in · Sluice";
    first.current?.focus();
  }, []);

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setFault(undefined);
    setBusy(true);
    try {
      await begin({ id: id.trim(), secret: secret.trim() });
    } catch (error) {
      setFault(faultText(error));
      setBusy(false);
    }
  }

  function paste(event: ClipboardEvent): void {
    const key = keyInText(event.clipboardData.getData("text"));
    if (!key) return;
    event.preventDefault();
    setId(key.id);
    setSecret(key.secret);
  }

  return (
    <main className="login">
      <Wordmark />
      <h1>Log in</h1>
      <form onSubmit={(event) => void submit(event)} onPaste={paste}>
        <NameField
          label="Access key id"
          ref={first}
          value={id}
          set={setId}
          required
          name="username"
          autoComplete="username"
          aria-describedby={faultId}
        />
        <NameField
          label="Secret access key"
          type="password"
          value={secret}
          set={setSecret}
          required
          name="password"
          autoComplete="current-password"
        />
        <button type="submit" className="main" disabled={isBusy || !canSign()}>
          {isBusy ? "Asking the gateway…" : "Log in"}
        </button>
        <p id={faultId} role="alert" className="fault">
          {canSign() ? (fault ?? farewell) : UNABLE}
        </p>
      </form>
      <div className="quiet">
        <p>
          The key makes a session, which this browser keeps for 12 hours, for all tabs, in a form that no
          script can read. The key itself is kept nowhere. A gateway that makes no sessions has each tab ask
          for it.
        </p>
        <p>Both can be pasted at once, as this prints them:</p>
        <CliLine line={command`sluice env`} />
      </div>
    </main>
  );
}

const UNABLE =
  "Requests can't be signed here: browsers sign only on pages that come over HTTPS, or from localhost. Open the console in one of these ways.";

/** Browsers have their cryptography only where nobody on the way can change the page. */
function canSign(): boolean {
  return globalThis.isSecureContext && crypto.subtle !== undefined;
}

function faultText(error: unknown): string {
  if (!(error instanceof GatewayError)) return String(error);
  if (error.code === "InvalidAccessKeyId")
    return "The gateway knows no key of this id. It may have been deleted.";
  if (error.code === "SignatureDoesNotMatch") return "The secret is not that of this key.";
  return error.message;
}

/** A key in what `sluice env`, `sluice key create --json` or the file of the root key say. */
function keyInText(text: string): Entered | undefined {
  const find = (...names: string[]): string | undefined => {
    for (const name of names) {
      const found = new RegExp(`\\b${name}"?\\s*[=:]\\s*["']?([^\\s"',]+)`).exec(text)?.[1];
      if (found) return found;
    }
    return undefined;
  };
  const id = find("SLUICE_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID", "accessKeyId");
  const secret = find("SLUICE_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "secretAccessKey");
  return id && secret ? { id, secret } : undefined;
}
