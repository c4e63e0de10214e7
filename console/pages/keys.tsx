import { type ChangeEvent, type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { Issue } from "../../protocol/errors.ts";
import type { KeyCreated, KeyLevel, KeyPage, KeyWish } from "../../protocol/keys.ts";
import type { RepoList } from "../../protocol/repos.ts";
import { GatewayError } from "../../protocol/requests.ts";
import type { Session, SessionList } from "../../protocol/sessions.ts";
import { type Live, useLive, useOnce, useSession } from "../gateway/session.ts";
import { CliLine, type CommandLine, Copy, command } from "../parts/cli-line.tsx";
import { Action, Button, Deletion, Field, Plain, useSubmission } from "../parts/form.tsx";
import { Asked, Heard, Page, Section } from "../parts/page.tsx";
import { Ago, Ahead, countText, Mono } from "../parts/words.tsx";

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
            <Button className="main" act={() => setMaking(true)}>
              Make a key
            </Button>
          </p>
        )
      )}
      <Asked live={live}>{(page) => <Keys page={page} live={live} />}</Asked>
      {live.data && <RootSessions keys={live.data.keys} />}
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
        <Button className="main" act={close}>
          I have it: show it no more
        </Button>
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
  const { id, level, repos, pipelines, description, createdAt, expiresAt, expired, lastUsedOn, sessions } =
    listed;
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
      <Sessions sessions={sessions} ended={live.reload} />
    </li>
  );
}

/** The root key is in no list: whoever is logged in with it sees its sessions below. */
function RootSessions({ keys }: { readonly keys: readonly ListedKey[] }) {
  const { gateway } = useSession();
  const isRoot = keys.every(({ id }) => id !== gateway.keyId);
  const { data, reload } = useOnce<SessionList>("/console/sessions", { isAsked: isRoot });
  if (!isRoot || !data || data.sessions.length === 0) return null;
  return (
    <Section title="Sessions of your key">
      <Sessions sessions={data.sessions} ended={reload} />
    </Section>
  );
}

interface SessionsProps {
  readonly sessions: readonly Session[] | undefined;
  ended(): void;
}

/** Where somebody is logged in with a key. */
function Sessions({ sessions = [], ended }: SessionsProps) {
  if (sessions.length === 0) return null;
  return (
    <details className="sessions">
      <summary>{sessions.length === 1 ? "1 session" : `${sessions.length} sessions`} of the console</summary>
      <ul>
        {sessions.map(({ id, createdAt, expiresAt }) => (
          <li key={id}>
            <Mono>{id}</Mono>{" "}
            <span className="quiet">
              begun <Ago at={createdAt} />, ends <Ahead at={expiresAt} />
            </span>{" "}
            <Action
              label={`End the session ${id}`}
              act={(gateway) => gateway.call(`/console/sessions/${id}`, { method: "DELETE" })}
              done={ended}
            >
              End
            </Action>
          </li>
        ))}
      </ul>
    </details>
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

const LEVELS: readonly { readonly level: KeyLevel; readonly may: string }[] = [
  { level: "read", may: "lists and reads" },
  { level: "write", may: "also writes and deletes files" },
  {
    level: "admin",
    may: "also makes and deletes buckets and pipelines, and in all repos handles keys and nodes",
  },
  { level: "runner", may: "is what a runner needs: it reads and writes what the datums that it leased name" },
];
const MOST_CHARACTERS = 200;

/** What a new key is to be for. */
function KeyForm({ finish, leave }: { finish(key: KeyCreated): void; leave(): void }) {
  const [level, setLevel] = useState<KeyLevel>("read");
  const [isLimited, setLimited] = useState(false);
  const [repos, setRepos] = useState<readonly string[]>([]);
  const [typed, setTyped] = useState("");
  const [pipelines, setPipelines] = useState(false);
  const [description, setDescription] = useState("");
  const [expires, setExpires] = useState("");
  const [issues, setIssues] = useState<readonly Issue[]>([]);
  const first = useRef<HTMLInputElement>(null);
  const formsId = useId();
  useEffect(() => first.current?.focus(), []);

  const mayBeLimited = level !== "runner";
  const wish: KeyWish = {
    level,
    // What was typed and not added yet counts, too.
    repos: isLimited && mayBeLimited ? [...new Set([...repos, ...wordsIn(typed)])] : null,
    ...(pipelines && isLimited && level === "admin" && { pipelines: true }),
    description: description.trim(),
    ...(expires.trim() !== "" && { expires: expires.trim() }),
  };
  // A command without repos would be for all of them.
  const isNowhere = wish.repos?.length === 0;

  const { isBusy, submit, fault } = useSubmission(async (gateway) => {
    setIssues([]);
    try {
      finish(await gateway.call<KeyCreated>("/keys", { method: "POST", json: wish }));
    } catch (error) {
      if (!(error instanceof GatewayError) || error.issues.length === 0) throw error;
      setIssues(error.issues);
    }
  });

  return (
    <form className="key-form" onSubmit={submit} aria-label="A new key" autoComplete="off">
      <fieldset>
        <legend>What it may do</legend>
        {LEVELS.map(({ level: each, may }) => (
          <Choice
            key={each}
            ref={each === "read" ? first : undefined}
            name="level"
            isSet={level === each}
            set={() => setLevel(each)}
            words={each}
            more={may}
          />
        ))}
        <Issues of="level" issues={issues} />
      </fieldset>
      {mayBeLimited ? (
        <fieldset>
          <legend>Where</legend>
          <Choice
            name="where"
            isSet={!isLimited}
            set={() => setLimited(false)}
            words="all repos"
            more="and what belongs to none, such as nodes"
          />
          <Choice
            name="where"
            isSet={isLimited}
            set={() => setLimited(true)}
            words="some repos"
            more="lists show only them, all else is refused"
          />
          {isLimited && <Repos repos={repos} setRepos={setRepos} typed={typed} setTyped={setTyped} />}
          <Issues of="repos" issues={issues} />
          {isLimited && level === "admin" && (
            <Choice
              isSet={pipelines}
              set={setPipelines}
              words="may run pipelines"
              more="creates, updates and starts them there; they run code on the nodes"
            />
          )}
          <Issues of="pipelines" issues={issues} />
        </fieldset>
      ) : (
        <p className="quiet">A runner works for all pipelines, so its key is for all repos.</p>
      )}
      <Field
        label="What it is for"
        value={description}
        set={setDescription}
        maxLength={MOST_CHARACTERS}
        placeholder="camera upload"
      />
      <Issues of="description" issues={issues} />
      <Field
        label="When it expires"
        value={expires}
        set={setExpires}
        placeholder="never"
        spellCheck={false}
        autoCapitalize="off"
        aria-describedby={formsId}
      />
      <p id={formsId} className="quiet">
        After a time such as 30d or 12h, or at one such as 2027-01-31T18:00Z. It is then refused, and stays
        listed.
      </p>
      <Issues of="expires" issues={issues} />
      <p className="actions">
        <button type="submit" className="main" disabled={isBusy || isNowhere}>
          Make the key
        </button>
        <Button act={leave}>Cancel</Button>
        {isNowhere && <span className="quiet">Name at least one repo.</span>}
      </p>
      {fault}
      {!isNowhere && <CliLine line={commandFor(wish)} />}
    </form>
  );
}

interface ChoiceProps {
  /** Of the choices that one is taken of. Absent: it is taken or not. */
  readonly name?: string;
  readonly words: string;
  readonly more: string;
  readonly isSet: boolean;
  readonly ref?: React.Ref<HTMLInputElement> | undefined;
  set(isSet: boolean): void;
}

function Choice({ name, words, more, isSet, ref, set }: ChoiceProps) {
  const type = name === undefined ? "checkbox" : "radio";
  return (
    <label className="choice">
      <input {...{ ref, type, name }} checked={isSet} onChange={({ target }) => set(target.checked)} />
      <span>
        <b>{words}</b> <span className="quiet">{more}</span>
      </span>
    </label>
  );
}

interface ReposProps {
  readonly repos: readonly string[];
  setRepos(repos: readonly string[]): void;
  readonly typed: string;
  setTyped(typed: string): void;
}

/** The repos that a key is for, chosen of those that are there or typed. */
function Repos({ repos, setRepos, typed, setTyped }: ReposProps) {
  const list = useId();
  const { data } = useOnce<RepoList>("/repos");
  const known = (data?.repos ?? []).map(({ name }) => name).filter((name) => !repos.includes(name));
  function add(text: string): void {
    setRepos([...new Set([...repos, ...wordsIn(text)])]);
    setTyped("");
  }
  function change({ target: { value }, nativeEvent }: ChangeEvent<HTMLInputElement>): void {
    // Who chooses of the list has it at once. Who types ends a name with a comma or a space: it may begin like another one.
    const isTyped = nativeEvent instanceof InputEvent && nativeEvent.inputType !== "insertReplacementText";
    if ((!isTyped && known.includes(value)) || /[\s,]$/.test(value)) add(value);
    else setTyped(value);
  }
  function press(event: KeyboardEvent<HTMLInputElement>): void {
    if (event.key === "Enter" && typed.trim() !== "") {
      event.preventDefault();
      add(typed);
    } else if (event.key === "Backspace" && typed === "" && repos.length > 0) setRepos(repos.slice(0, -1));
  }
  return (
    <div className="repos">
      {repos.map((repo) => (
        <span key={repo} className="chip">
          {repo}
          <Plain aria-label={`Take away ${repo}`} act={() => setRepos(repos.filter((each) => each !== repo))}>
            ×
          </Plain>
        </span>
      ))}
      <input
        aria-label="Repos"
        list={list}
        value={typed}
        onChange={change}
        onKeyDown={press}
        placeholder={repos.length === 0 ? "photos" : "another one"}
        spellCheck={false}
        autoCapitalize="off"
      />
      <datalist id={list}>
        {known.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </div>
  );
}

/** What the gateway says of one field. */
function Issues({ of, issues }: { readonly of: string; readonly issues: readonly Issue[] }) {
  const own = issues.filter(({ path }) => path === of || path.startsWith(`${of}[`));
  if (own.length === 0) return null;
  return (
    <p role="alert" className="bad">
      {own.map(({ path, message }) => `${path} ${message}`).join("; ")}
    </p>
  );
}

function wordsIn(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function commandFor({ level, repos, pipelines, expires, description }: KeyWish): CommandLine {
  const options = [
    ...(repos ?? []).map((repo) => command`--repo ${repo}`),
    ...(pipelines ? [command`--pipelines`] : []),
    ...(expires ? [command`--expires ${expires}`] : []),
    ...(description ? [command`--description ${description}`] : []),
  ];
  return command`sluice key create ${[command`--level ${level}`, ...options]}`;
}
