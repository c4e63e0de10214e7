import { useEffect, useRef } from "react";
import type { KeyCreated } from "../../../protocol/keys.ts";
import { Copy } from "../../parts/cli-line.tsx";

/** The one time that the secret of a key is shown. It goes with the page, the log out, or when it is told to. */
export function MadeKey({ made, close }: { readonly made: KeyCreated; close(): void }) {
  const { id, secret, description } = made;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const variables = [
    `export SLUICE_ENDPOINT=${location.origin}`,
    `export SLUICE_ACCESS_KEY_ID=${id}`,
    `export SLUICE_SECRET_ACCESS_KEY=${secret}`,
    `export AWS_ENDPOINT_URL=${location.origin}`,
    `export AWS_ACCESS_KEY_ID=${id}`,
    `export AWS_SECRET_ACCESS_KEY=${secret}`,
    "export AWS_REGION=us-east-1",
  ].join("\n");
  return (
    <section className="made" aria-label="The new key">
      <h2 ref={heading} tabIndex={-1}>
        {description === "" ? "The key is made" : `The key for ${description} is made`}
      </h2>
      <p>
        <b>The secret is shown this once.</b> The gateway keeps it encrypted and shows it to nobody again.
      </p>
      <dl>
        <dt>Access key id</dt>
        <dd>
          <code>{id}</code> <Copy text={id} what="the access key id" />
        </dd>
        <dt>Secret access key</dt>
        <dd>
          <code>{secret}</code> <Copy text={secret} what="the secret access key" />
        </dd>
      </dl>
      <details>
        <summary>As variables of a shell, for sluice, aws and boto3</summary>
        <pre>{variables}</pre>
        <Copy text={variables} what="the variables" />
      </details>
      <p className="actions">
        <button type="button" className="main" onClick={close}>
          I have it: show it no more
        </button>
      </p>
    </section>
  );
}
