import {
  type ChangeEvent,
  type FormEvent,
  type KeyboardEvent,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";
import type { Issue } from "../../../protocol/errors.ts";
import type { KeyCreated, KeyLevel, KeyWish } from "../../../protocol/keys.ts";
import type { RepoList } from "../../../protocol/repos.ts";
import { GatewayError } from "../../../protocol/requests.ts";
import { useOnce } from "../../gateway/session.ts";
import { CliLine, type CommandLine, command } from "../../parts/cli-line.tsx";
import { Button, Field, useSubmission } from "../../parts/form.tsx";

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

interface KeyFormProps {
  finish(key: KeyCreated): void;
  leave(): void;
}

/** What a new key is to be for. */
export function KeyForm({ finish, leave }: KeyFormProps) {
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
        <Button act={leave}>Leave it</Button>
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
          <button
            type="button"
            className="plain"
            aria-label={`Take away ${repo}`}
            onClick={() => setRepos(repos.filter((each) => each !== repo))}
          >
            ×
          </button>
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
