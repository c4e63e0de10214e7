import { useQuery } from "@tanstack/react-query";
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
import { faultText, useSession } from "../../gateway/session.tsx";
import { CliLine, type CommandLine, command } from "../../parts/cli-line.tsx";

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
  const session = useSession();
  const [level, setLevel] = useState<KeyLevel>("read");
  const [isLimited, setLimited] = useState(false);
  const [repos, setRepos] = useState<readonly string[]>([]);
  const [typed, setTyped] = useState("");
  const [pipelines, setPipelines] = useState(false);
  const [description, setDescription] = useState("");
  const [expires, setExpires] = useState("");
  const [issues, setIssues] = useState<readonly Issue[]>([]);
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const first = useRef<HTMLInputElement>(null);
  const names = { description: useId(), expires: useId(), forms: useId(), fault: useId() };
  useEffect(() => first.current?.focus(), []);

  // What was typed and not added yet counts, too.
  const named = [...new Set([...repos, ...wordsIn(typed)])];
  const mayBeLimited = level !== "runner";
  const wish: KeyWish = {
    level,
    repos: isLimited && mayBeLimited ? named : null,
    ...(pipelines && isLimited && level === "admin" && { pipelines: true }),
    description: description.trim(),
    ...(expires.trim() !== "" && { expires: expires.trim() }),
  };

  // A command without repos would be for all of them.
  const isNowhere = wish.repos?.length === 0;

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setIssues([]);
    setFault(undefined);
    try {
      finish(await session.gateway.call<KeyCreated>("/keys", { method: "POST", json: wish }));
    } catch (error) {
      if (error instanceof GatewayError && error.issues.length > 0) setIssues(error.issues);
      else setFault(faultText(error, session));
      setBusy(false);
    }
  }

  return (
    <form
      className="key-form"
      onSubmit={(event) => void submit(event)}
      aria-label="A new key"
      autoComplete="off"
    >
      <fieldset>
        <legend>What it may do</legend>
        {LEVELS.map(({ level: each, may }) => (
          <label key={each} className="choice">
            <input
              ref={each === "read" ? first : undefined}
              type="radio"
              name="level"
              checked={level === each}
              onChange={() => setLevel(each)}
            />
            <span>
              <b>{each}</b> <span className="quiet">{may}</span>
            </span>
          </label>
        ))}
        <Issues of="level" issues={issues} />
      </fieldset>
      {mayBeLimited ? (
        <fieldset>
          <legend>Where</legend>
          <label className="choice">
            <input type="radio" name="where" checked={!isLimited} onChange={() => setLimited(false)} />
            <span>
              <b>all repos</b> <span className="quiet">and what belongs to none, such as nodes</span>
            </span>
          </label>
          <label className="choice">
            <input type="radio" name="where" checked={isLimited} onChange={() => setLimited(true)} />
            <span>
              <b>some repos</b> <span className="quiet">lists show only them, all else is refused</span>
            </span>
          </label>
          {isLimited && <Repos repos={repos} setRepos={setRepos} typed={typed} setTyped={setTyped} />}
          <Issues of="repos" issues={issues} />
          {isLimited && level === "admin" && (
            <label className="choice">
              <input
                type="checkbox"
                checked={pipelines}
                onChange={({ target }) => setPipelines(target.checked)}
              />
              <span>
                <b>may run pipelines</b>{" "}
                <span className="quiet">
                  creates, updates and starts them there; they run code on the nodes
                </span>
              </span>
            </label>
          )}
          <Issues of="pipelines" issues={issues} />
        </fieldset>
      ) : (
        <p className="quiet">A runner works for all pipelines, so its key is for all repos.</p>
      )}
      <label htmlFor={names.description}>What it is for</label>
      <input
        id={names.description}
        value={description}
        onChange={({ target }) => setDescription(target.value)}
        maxLength={MOST_CHARACTERS}
        placeholder="camera upload"
        aria-describedby={names.fault}
      />
      <Issues of="description" issues={issues} />
      <label htmlFor={names.expires}>When it expires</label>
      <input
        id={names.expires}
        value={expires}
        onChange={({ target }) => setExpires(target.value)}
        placeholder="never"
        spellCheck={false}
        autoCapitalize="off"
        aria-describedby={`${names.forms} ${names.fault}`}
      />
      <p id={names.forms} className="quiet">
        After a time such as 30d or 12h, or at one such as 2027-01-31T18:00Z. It is then refused, and stays
        listed.
      </p>
      <Issues of="expires" issues={issues} />
      <p className="actions">
        <button type="submit" className="main" disabled={isBusy || isNowhere}>
          Make the key
        </button>
        <button type="button" onClick={leave}>
          Leave it
        </button>
        {isNowhere && <span className="quiet">Name at least one repo.</span>}
      </p>
      <p id={names.fault} role="alert" className="bad">
        {fault}
      </p>
      {!isNowhere && <CliLine line={commandFor(wish)} />}
    </form>
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
  const { gateway } = useSession();
  const names = { field: useId(), list: useId() };
  const { data } = useQuery({
    queryKey: [gateway.keyId, "/repos"],
    queryFn: ({ signal }) => gateway.call<RepoList>("/repos", { signal }),
    retry: false,
    networkMode: "always",
  });
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
      <label htmlFor={names.field} className="hidden">
        Repos
      </label>
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
        id={names.field}
        list={names.list}
        value={typed}
        onChange={change}
        onKeyDown={press}
        placeholder={repos.length === 0 ? "photos" : "another one"}
        spellCheck={false}
        autoCapitalize="off"
      />
      <datalist id={names.list}>
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
