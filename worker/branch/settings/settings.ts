import { daysKept, isKeptBy } from "../../core/lifecycle-rules.ts";
import type { Tx } from "../../objects/transaction.ts";
import type { Done, Protected, Refused } from "../contract/answers.ts";
import type { Keep, Lifecycle, ModifiedOf, SettingsChange } from "../contract/settings.ts";
import type { Outbox } from "../outbox/outbox-store.ts";
import type { FileStore } from "../tree/file-store.ts";
import type { Live } from "../tree/generation-store.ts";
import { type PlanStores, planScans } from "./lifecycle-scans.ts";
import type { ClaimStore, Settings, SettingsStore } from "./settings-store.ts";

interface SettingStores {
  readonly settings: SettingsStore;
}

/**
 * Sets what is asked of the live generation, or says why that makes no sense. If it changes anything, the catalogue is to be
 * told. The output of a pipeline is written by its jobs alone: it is protected for that pipeline or for nobody, and other
 * branches for keys, which are told apart here and not when they write.
 */
export function changeSettings(
  tx: Tx,
  ledger: PlanStores & SettingStores & { readonly claim: ClaimStore; readonly outbox: Outbox },
  { live, change, now }: { live: Pick<Live, "gen" | "uid">; change: SettingsChange; now: number },
): Done | Protected | Refused<"not-its-output" | "pipeline-output"> {
  const { settings, claim, outbox } = ledger;
  const { gen, uid } = live;
  const before = settings.of(gen);
  const {
    public: isPublic = before.isPublic,
    cors = before.cors,
    writer = before.writer,
    lifecycle = before.lifecycle,
    keep = keepBy(before, change.lifecycle),
    modified = before.modified,
    emptyOnly = before.emptyOnly,
    nearReads = before.nearReads,
  } = change;
  const owner = claim.get()?.pipeline;
  if (change.writer && "key" in change.writer && owner !== undefined) {
    return { ok: false, reason: "pipeline-output" };
  }
  if (change.writer && "pipeline" in change.writer && change.writer.pipeline !== owner) {
    return { ok: false, reason: "not-its-output" };
  }
  if (change.lifecycle?.rules.some(({ expiration }) => expiration)) {
    if (owner !== undefined) return { ok: false, reason: "pipeline-output" };
    const refusal = protectionRefusal(tx, ledger, { gen, key: change.lifecycle.key });
    if (refusal) return refusal;
  }
  const { revision, ...settled } = before;
  const wanted = { isPublic, cors, writer, lifecycle, keep, modified, emptyOnly, nearReads };
  if (JSON.stringify(wanted) === JSON.stringify(settled)) return { ok: true };
  planScans(tx, ledger, { live, before: before.lifecycle, after: lifecycle, now });
  settings.save(gen, { ...wanted, revision: revision + 1 });
  outbox.tellSettings({ event: `${uid}.${revision + 1}`, now });
  return { ok: true };
}

/**
 * How much of the history stays under these rules: as much as they say, if they say anything. Without that, what earlier
 * rules said ends with them, and what somebody else said stays.
 */
function keepBy({ keep, lifecycle }: Settings, rules: Lifecycle | null | undefined): Keep | null {
  if (rules === undefined) return keep;
  const days = daysKept(rules?.rules ?? []);
  if (days !== undefined) return { days };
  return isKeptBy(lifecycle?.rules ?? [], keep) ? null : keep;
}

/**
 * Why a client with this key may not write, if somebody else alone may. To be asked in the transaction that writes, so that
 * no write is decided before a protection and done after it. The root key is a key like any other here: who may protect
 * a branch may end that, and until then nobody writes to it by mistake.
 */
export function protectionRefusal(
  _: Tx,
  { settings }: SettingStores,
  { gen, key }: { gen: number; key: string | undefined },
): Protected | undefined {
  const { writer } = settings.of(gen);
  if (writer === null || ("key" in writer && writer.key === key)) return undefined;
  return { ok: false, reason: "protected", writer };
}

/**
 * Why a branch that is to go only when it is empty, as is asked or as it is set, does not go: HEAD has a file, or the key of
 * an empty directory. What open commits and uploads hold is no file yet, as in S3, where uploads in parts keep no bucket
 * (https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteBucket.html). To be asked in the transaction that deletes it.
 */
export function notEmptyRefusal(
  _: Tx,
  { settings, files }: SettingStores & { readonly files: FileStore },
  { gen, withFiles = !settings.of(gen).emptyOnly }: { gen: number; withFiles: boolean | undefined },
): Refused<"not-empty"> | undefined {
  return withFiles || !files.anyAtHead(gen, "") ? undefined : { ok: false, reason: "not-empty" };
}

/** Whether a change may give somebody an answer who got none before. */
export function letsIn({ public: isPublic = false, cors = null }: SettingsChange): boolean {
  return isPublic || cors !== null;
}

/** Whose time Last-Modified is in the branch: as it is set to, else as the gateway is, which asks. */
export function modifiedOf(
  { live, settings }: SettingStores & { readonly live: Live | null },
  { modified = "branch" }: { readonly modified?: ModifiedOf },
): ModifiedOf {
  return (live && settings.of(live.gen).modified) ?? modified;
}

/** Whether the branch is there and answers reads without a signature. */
export function isPublic({ live, settings }: SettingStores & { readonly live: Live | null }): boolean {
  return live !== null && settings.of(live.gen).isPublic;
}
