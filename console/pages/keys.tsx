import { useEffect, useRef, useState } from "react";
import type { KeyCreated, KeyPage } from "../../protocol/keys.ts";
import { type Live, useLive, useSession } from "../gateway/session.ts";
import { CliLine, Copy, command } from "../parts/cli-line.tsx";
import { Deletion } from "../parts/form.tsx";
import { Asked, Heard, Page, Section } from "../parts/page.tsx";
import { Ago, Ahead, countText, Mono } from "../parts/words.tsx";
import { KeyForm } from "./keys/key-form.tsx";

/** Most that one answer of the gateway has. */
const MOST = 1000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** A key that nobody used for so long is likely needed no more. */
const LONG_DAYS = 90;

type ListedKey = KeyPage["keys"][number];

/** The access keys: what each may do, when it was last used and expires; makes and deletes them. */
export default function KeysPage() {
  const live = useLive<KeyPage>("/keys", { query: { limit: MOST } });
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<KeyCreated>();
  function finish(key: KeyCreated): void {
    setMaking(false);
    setMade(key);
    live.reload();
  }
  return (
    <Page title="Keys" cli={command`sluice key list`} live={live} aside={<Heard live={live} />}>
      {made && <MadeKey key={made.id} made={made} close={() => setMade(undefined)} />}
      {isMaking ? (
        <KeyForm finish={finish} leave={() => setMaking(false)} />
      ) : (
        live.data && (
          <p className="actions">
            <button type="button" className="main" onClick={() => setMaking(true)}>
              Make a key
            </button>
          </p>
        )
      )}
      <Asked live={live}>{(page) => <Keys page={page} live={live} />}</Asked>
    </Page>
  );
}

/** The one time that the secret of a key is shown. It goes with the page, the log out, or when it is told to. */
function MadeKey({ made, close }: { readonly made: KeyCreated; close(): void }) {
  const { id, secret, description } = made;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const variables = [
    ...["SLUICE_ENDPOINT", "AWS_ENDPOINT_URL"].map((name) => `export ${name}=${location.origin}`),
    ...["SLUICE", "AWS"].flatMap((prefix) => [
      `export ${prefix}_ACCESS_KEY_ID=${id}`,
      `export ${prefix}_SECRET_ACCESS_KEY=${secret}`,
    ]),
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

function Keys({ page: { keys, next }, live }: { readonly page: KeyPage; readonly live: Live<KeyPage> }) {
  const [sought, seek] = useState("");
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  const found = keys.filter((key) => words.every((word) => textOf(key).includes(word)));
  if (keys.length === 0) {
    return (
      <section className="empty" aria-label="First steps">
        <p>
          No key was made yet: all is done with the root key, which comes from the environment of the gateway
          and is not in this list. Who gets a key of their own can be limited to some repos, and shut out
          again without the others noticing.
        </p>
        <p>
          <CliLine
            line={command`sluice key create --level write --repo photos --description 'camera upload'`}
          />
        </p>
      </section>
    );
  }
  return (
    <Section title="Keys" count={keys.length}>
      {keys.length > 8 && (
        <p className="seek">
          <input
            type="search"
            aria-label="Find keys"
            placeholder="Find by id, description, level, repo, or expired"
            value={sought}
            onChange={({ target }) => seek(target.value)}
          />
        </p>
      )}
      <ul className="keys">
        {found.map((key) => (
          <KeyLine key={key.id} listed={key} live={live} />
        ))}
      </ul>
      {found.length === 0 && <p className="quiet">No key has all of these words.</p>}
      {next !== null && (
        <p>
          There are more than {countText(MOST)}: <CliLine line={command`sluice key list --all`} />
        </p>
      )}
      <p className="quiet">
        The root key, which comes from the environment of the gateway, is not in this list. A key can't be
        changed: make another, hand it out, and delete the old one.
      </p>
    </Section>
  );
}

function textOf({ id, description, level, repos, expired }: ListedKey): string {
  const words = [id, description, level, repos?.join(" ") ?? "all repos", expired ? "expired" : ""];
  return words.join(" ").toLowerCase();
}

function KeyLine({ listed, live }: { readonly listed: ListedKey; readonly live: Live<KeyPage> }) {
  const { gateway } = useSession();
  const { id, level, repos, pipelines, description, createdAt, expiresAt, expired, lastUsedOn } = listed;
  const isOwn = id === gateway.keyId;
  async function remove(): Promise<void> {
    await gateway.call(`/keys/${encodeURIComponent(id)}`, { method: "DELETE" });
    live.reload();
  }
  return (
    <li>
      <span className="what">
        <b>{description === "" ? <Mono>{id}</Mono> : description}</b>
        {description !== "" && <span className="mono quiet">{id}</span>}
        {isOwn && <span className="own">yours</span>}
      </span>
      <span className="may">
        <b>{level}</b> in {repos === null ? "all repos" : repos.join(", ")}
        {level === "admin" && repos !== null && (
          <span className="quiet">{pipelines ? ", may run pipelines" : ", may not run pipelines"}</span>
        )}
      </span>
      <LastUse day={lastUsedOn} createdAt={createdAt} />
      <span className="quiet">
        made <Ago at={createdAt} />
        {expiresAt !== undefined && (
          <span className={expired ? "expiry bad" : "expiry"}>
            {expired ? "expired " : "expires "}
            {expired ? <Ago at={expiresAt} /> : <Ahead at={expiresAt} />}
          </span>
        )}
      </span>
      <Deletion name={id} act={remove}>
        <p>
          What is signed with it is refused within 5 seconds.{" "}
          {lastUsedOn ? `It was used ${dayText(lastUsedOn)}.` : ""}
          {isOwn && " You are logged in with it, which ends, too."}
        </p>
        <CliLine line={command`sluice key delete ${id}`} />
      </Deletion>
    </li>
  );
}

function LastUse({ day, createdAt }: { readonly day: string | undefined; readonly createdAt: number }) {
  const isLong = daysSince(day === undefined ? createdAt : Date.parse(day)) >= LONG_DAYS;
  const className = isLong ? "use long" : "use";
  if (day === undefined) return <span className={className}>not used yet</span>;
  return (
    <span className={className}>
      used{" "}
      <time dateTime={day} title={`${day}, a day of UTC`}>
        {dayText(day)}
      </time>
    </span>
  );
}

const DAY = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** `today`, `yesterday`, `3 days ago` */
function dayText(day: string): string {
  return DAY.format(-Math.max(0, daysSince(Date.parse(day))), "day");
}

/** Whole days of UTC. */
function daysSince(at: number): number {
  return Math.floor(Date.now() / DAY_MS) - Math.floor(at / DAY_MS);
}
