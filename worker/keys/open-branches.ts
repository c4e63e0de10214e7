import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import type { BranchOpenness } from "../catalogue/branch-settings.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import type { CorsRule } from "../core/cors.ts";
import { ExpiringMap } from "./expiring-map.ts";

/** How long it is used what D1 and branches said of their openness, in milliseconds: so long may a change elsewhere stay unseen. */
export const OPENNESS_MEMORY_MS = 5_000;
/** From this age on one request reads the list anew, while others go on with it. */
const RENEWED_AFTER_MS = 4_000;
/** Most open branches that one query lists and an isolate remembers. If there are more, the others are looked up one by one. */
const MAX_LISTED = 10_000;
/** Most branches that were looked up, and most that have rules, that an isolate remembers. */
const MAX_LOOKED_UP = 1_000;
const MAX_RULES = 100;

interface OpenBranchesParts {
  readonly catalogue: Pick<Catalogue, "settings">;
  /** Asks a branch for its rules. */
  readonly rulesOf: (address: BranchAddress) => Promise<readonly CorsRule[]>;
  readonly now?: () => number;
  readonly maxListed?: number;
}

const CLOSED: BranchOpenness = { isPublic: false, hasCors: false };

interface List {
  /** When it was asked for. */
  readonly since: number;
  readonly branches: ReadonlyMap<string, BranchOpenness>;
  /** Whether it names every open branch. */
  readonly isWhole: boolean;
}

/** What is remembered; forgotten as a whole, so that an answer on its way is remembered by nobody. */
class Memory {
  list: List | undefined;
  isRenewing = false;
  readonly lookedUp = new ExpiringMap<BranchOpenness>({
    ttlMs: OPENNESS_MEMORY_MS,
    maxEntries: MAX_LOOKED_UP,
  });
  readonly rules = new ExpiringMap<readonly CorsRule[]>({ ttlMs: OPENNESS_MEMORY_MS, maxEntries: MAX_RULES });
}

/**
 * Which branches are open to requests that nobody signed: public ones, and those that browsers may ask for pages from
 * elsewhere. What it does not name is closed, whether it is there or not, and no object is asked. One per isolate: what it
 * remembers serves all requests.
 */
export class OpenBranches {
  readonly #parts: Required<OpenBranchesParts>;
  #memory = new Memory();

  constructor({ now = Date.now, maxListed = MAX_LISTED, ...parts }: OpenBranchesParts) {
    this.#parts = { now, maxListed, ...parts };
  }

  /** Rejects, for another try, if D1 does not answer. */
  async find(address: BranchAddress): Promise<BranchOpenness> {
    const memory = this.#memory;
    const { branches, isWhole } = await this.#list(memory);
    return branches.get(bucketName(address)) ?? (isWhole ? CLOSED : await this.#lookUp(memory, address));
  }

  /** The CORS rules of a branch that has some, as the branch itself says; none if that has ended. */
  async corsRules(address: BranchAddress): Promise<readonly CorsRule[]> {
    const { rules } = this.#memory;
    const since = this.#parts.now();
    const name = bucketName(address);
    const known = rules.get(name, since);
    if (known) return known;
    const value = await this.#parts.rulesOf(address);
    rules.set(name, { value, since });
    return value;
  }

  /** To be called when a branch was set to something here: this isolate then sees it at once. */
  forget(): void {
    this.#memory = new Memory();
  }

  // While it is good, one request at a time renews it. Once it is not, each looks for itself: the platform may end the one
  // that the others would wait for.
  async #list(memory: Memory): Promise<List> {
    const { catalogue, now, maxListed } = this.#parts;
    const since = now();
    const { list } = memory;
    // A list of a time that is still to come says nothing: the clock was set back, by nobody knows how much.
    const isGood = list !== undefined && since >= list.since && since - list.since < OPENNESS_MEMORY_MS;
    if (isGood && (memory.isRenewing || since - list.since < RENEWED_AFTER_MS)) return list;
    memory.isRenewing = true;
    try {
      const rows = await catalogue.settings.listOpen(maxListed + 1);
      const isWhole = rows.length <= maxListed;
      const listed = isWhole ? rows : rows.slice(0, maxListed);
      const branches = new Map(listed.map((row) => [bucketName(row), openness(row)]));
      memory.list = { since, branches, isWhole };
      return memory.list;
    } catch (error) {
      if (isGood) return list;
      throw error;
    } finally {
      memory.isRenewing = false;
    }
  }

  async #lookUp({ lookedUp }: Memory, address: BranchAddress): Promise<BranchOpenness> {
    const since = this.#parts.now();
    const name = bucketName(address);
    const known = lookedUp.get(name, since);
    if (known) return known;
    const row = await this.#parts.catalogue.settings.findOpen(address);
    const value = row ? openness(row) : CLOSED;
    lookedUp.set(name, { value, since });
    return value;
  }
}

function openness({ isPublic, hasCors }: BranchOpenness): BranchOpenness {
  return { isPublic, hasCors };
}
