import { beginExport, endExport, exportCommits, exportFiles, exportTags } from "./admin/exports.ts";
import { checkBranch, listForCheck, startSweep, sweepState } from "./admin/fsck.ts";
import { scrubState, showLog, startScrub } from "./admin/host.ts";
import {
  abortImport,
  beginImport,
  finishImport,
  importCommits,
  importFiles,
  importTags,
} from "./admin/imports.ts";
import {
  createKey,
  deleteKey,
  exportAccessKeys,
  importAccessKeys,
  listKeys,
  reseal,
  whoAmI,
} from "./admin/keys.ts";
import { drainNode, listNodes, resumeNode } from "./admin/nodes.ts";
import { rebuild } from "./admin/rebuild.ts";
import { createCommit, listFiles } from "./commits/commits.ts";
import { readDownstream } from "./commits/downstream.ts";
import { eraseFile } from "./commits/erasures.ts";
import { diffCommit, inspectCommit, listCommits, redactAnnotation } from "./commits/log.ts";
import {
  abortOpenCommit,
  diffOpenCommit,
  finishOpenCommit,
  inspectOpenCommit,
  listOpenCommits,
  revertCommit,
  startOpenCommit,
} from "./commits/open-commits.ts";
import { readDerived, readProvenance } from "./commits/provenance.ts";
import { deleteTag, inspectTag, listTags, setTag } from "./commits/tags.ts";
import { readContents } from "./contents.ts";
import { readLogs } from "./job-logs.ts";
import {
  inspectDatum,
  inspectJob,
  jobInputs,
  jobRepo,
  jobsRepo,
  listDatumOutputs,
  listDatums,
  listJobs,
  retryInputs,
  retryJob,
  stopJob,
  summarizeJob,
} from "./jobs.ts";
import { showNow } from "./now.ts";
import { startPipeline, stopPipeline } from "./pipelines/changes.ts";
import {
  createPipeline,
  deletePipeline,
  inspectPipeline,
  listPipelines,
  newPipelineInputs,
  newPipelineRepo,
  pipelineInputs,
  showLoops,
} from "./pipelines/pipelines.ts";
import { showGraph, summarizePipeline } from "./pipelines/standing.ts";
import { inspectPipelineVersion, listPipelineVersions } from "./pipelines/versions.ts";
import {
  createBranch,
  deleteBranch,
  inspectBranch,
  listBranches,
  listRepos,
  newBranchSource,
  setEmptyOnly,
  setKeep,
  setLastModified,
  setPublic,
  setWriter,
  showBranchLoops,
} from "./repos/repos.ts";
import { catalogueUsage, repoUsage } from "./repos/usage.ts";
import { ANY_KEY, noRepo, pipelineInPath, type Route, repoInPath } from "./request/admit.ts";
import type { BodyLimits } from "./request/body-scan.ts";
import { grantsContents, grantsFiles, grantsNewUpload, grantsUpload } from "./runner/granted.ts";
import { addLogs, finish, heartbeat, lease, leave, renew } from "./runner/runner.ts";
import {
  addContent,
  addInlineContents,
  composeContents,
  newUploadRepo,
  openUpload,
  reserveContents,
  uploadRepo,
} from "./uploads.ts";

/** What a runner needs to say that it lives, and to lease and report. To read and to upload it needs the grants of its leases. */
const FLEET = [{ permission: "work", of: noRepo }] as const;
/** Keys and nodes belong to no repo. They take `admin`, because a key that may hand out keys may do everything. */
const MANAGE = [{ permission: "admin", of: noRepo }] as const;
/** What belongs to no repo, or to many: the answer has what the key may see of it. */
const TO_LIST = [{ permission: "list", of: noRepo }] as const;
const TO_READ_ALL = [{ permission: "read", of: noRepo }] as const;
const TO_REPO = [{ permission: "write", of: repoInPath }] as const;
const TO_MANAGE_REPO = [{ permission: "admin", of: repoInPath }] as const;
const TO_READ_REPO = [{ permission: "read", of: repoInPath }] as const;
const TO_READ_PIPELINE = [{ permission: "read", of: pipelineInPath }] as const;
const TO_CHANGE_PIPELINE = [{ permission: "admin", of: pipelineInPath }] as const;
/** A start makes its code run over all of its inputs. */
const TO_RUN_PIPELINE = [
  { permission: "admin", of: pipelineInPath },
  { permission: "run", of: pipelineInPath },
  { permission: "read", of: pipelineInputs },
] as const;
const TO_READ_JOB = [{ permission: "read", of: jobRepo }] as const;
const TO_RUN_JOB = [
  { permission: "admin", of: jobRepo },
  { permission: "run", of: jobRepo },
  { permission: "read", of: retryInputs },
] as const;
const TO_OPEN_UPLOAD = [{ permission: "write", of: newUploadRepo }] as const;
const TO_UPLOAD = [{ permission: "write", of: uploadRepo }] as const;

const KIB = 1024;
const MIB = 1024 * KIB;
/** No body has more: a specification's deepest field is five deep. */
const DEPTH = 16;
/** Fields of one object, such as the variables of a command or the metadata of a file. */
const KEYS = 100;

/** What a body may hold that only says what is asked for. */
export const SMALL_BODY: BodyLimits = { bytes: 64 * KIB, depth: DEPTH, keys: KEYS, values: 1000 };
/** Where a check of a branch ended: a path of 1,024 bytes at most, or what its hasher knows, as JSON inside JSON. */
const TOKEN_BODY: BodyLimits = { bytes: 256 * KIB, depth: DEPTH, keys: KEYS, values: 100 };
/** A specification of 1,000,000 bytes (docs/contract.md), written with much air, and its text with each line end and quote escaped. */
const SPEC_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 25_000 };
/** MAX_COMMIT_OPERATIONS with paths of 1,024 bytes, or with some attributes each. */
const COMMIT_BODY: BodyLimits = { bytes: 16 * MIB, depth: DEPTH, keys: KEYS, values: 200_000 };
/** MAX_CONTENTS_PER_CALL, or MAX_PARTS_PER_CALL, by their digests. */
const DIGESTS_BODY: BodyLimits = { bytes: 256 * KIB, depth: DEPTH, keys: KEYS, values: 4000 };
/** MAX_CONTENTS_PER_CALL of INLINE_LIMIT_BYTES, in base64. */
const CONTENTS_BODY: BodyLimits = { bytes: 8 * MIB, depth: DEPTH, keys: KEYS, values: 5000 };
/** What a runner sends at once: some 4 MiB, and one datum with MAX_OUTPUTS_PER_DATUM paths of 1,024 bytes. */
const OUTCOMES_BODY: BodyLimits = { bytes: 16 * MIB, depth: DEPTH, keys: KEYS, values: 250_000 };
/** MAX_LOG_LINES with MAX_LOGS_CHARACTERS, each character written as `\u0000`. */
const LOGS_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 8000 };

/** A page of ARCHIVE_PAGE_BYTES, and what its last row may bring more. The first one has as many rules as a branch can have. */
const ARCHIVE_BODY: BodyLimits = { bytes: 8 * MIB, depth: DEPTH, keys: KEYS, values: 20_000 };
/** MAX_MOVED_KEYS, each with as many repos as it can have. */
const KEYS_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 1000 };

type Methods = Readonly<Record<string, Route>>;

/** The routes below a path, each to its methods. */
function below(path: string, routes: Readonly<Record<string, Methods>>): Record<string, Methods> {
  return Object.fromEntries(Object.entries(routes).map(([rest, methods]) => [path + rest, methods]));
}

/** Every route: path, then method, to what it needs, what its body may hold, and what it does. */
export const ROUTES: Readonly<Record<string, Methods>> = {
  "/pipelines": {
    GET: { needs: TO_LIST, query: true, handle: listPipelines },
    POST: {
      needs: [
        { permission: "admin", of: newPipelineRepo },
        { permission: "run", of: newPipelineRepo },
        { permission: "read", of: newPipelineInputs },
      ],
      body: SPEC_BODY,
      query: true,
      handle: createPipeline,
    },
  },
  "/graph": { GET: { needs: TO_LIST, handle: showGraph } },
  "/now": { GET: { needs: TO_LIST, handle: showNow } },
  "/jobs": { GET: { needs: [{ permission: "list", of: jobsRepo }], query: true, handle: listJobs } },
  "/fsck": { GET: { needs: MANAGE, query: true, handle: listForCheck } },
  "/repos": { GET: { needs: TO_LIST, query: true, handle: listRepos } },
  "/repos/:repo/usage": { GET: { needs: TO_READ_REPO, query: true, handle: repoUsage } },
  "/usage": { GET: { needs: TO_READ_ALL, handle: catalogueUsage } },
  "/repos/:repo/branches": {
    GET: { needs: [{ permission: "list", of: repoInPath }], handle: listBranches },
    POST: {
      needs: [
        { permission: "admin", of: repoInPath },
        { permission: "read", of: newBranchSource },
      ],
      handle: createBranch,
    },
  },
  "/repos/:repo/tags": { GET: { needs: TO_READ_REPO, query: true, handle: listTags } },
  "/nodes": { GET: { needs: TO_READ_ALL, handle: listNodes } },
  "/nodes/:node/drain": { POST: { needs: MANAGE, handle: drainNode } },
  "/nodes/:node/resume": { POST: { needs: MANAGE, handle: resumeNode } },
  "/admin/log": { GET: { needs: MANAGE, handle: showLog } },
  "/admin/rebuild": { POST: { needs: MANAGE, query: true, handle: rebuild } },
  "/admin/scrub": {
    GET: { needs: MANAGE, handle: scrubState },
    POST: { needs: MANAGE, handle: startScrub },
  },
  "/keys": {
    GET: { needs: MANAGE, query: true, handle: listKeys },
    POST: { needs: MANAGE, handle: createKey },
  },
  "/whoami": { GET: { needs: ANY_KEY, handle: whoAmI } },
  "/keys/export": { POST: { needs: MANAGE, handle: exportAccessKeys } },
  "/keys/import": { POST: { needs: MANAGE, body: KEYS_BODY, handle: importAccessKeys } },
  "/keys/reseal": { POST: { needs: MANAGE, query: true, handle: reseal } },
  "/keys/:key": { DELETE: { needs: MANAGE, handle: deleteKey } },
  ...below("/repos/:repo/branches/:branch", {
    "/fsck": { POST: { needs: MANAGE, body: TOKEN_BODY, handle: checkBranch } },
    "/sweep": {
      GET: { needs: MANAGE, query: true, handle: sweepState },
      POST: { needs: MANAGE, handle: startSweep },
    },
    "": {
      GET: { needs: TO_READ_REPO, handle: inspectBranch },
      DELETE: { needs: TO_MANAGE_REPO, query: true, handle: deleteBranch },
    },
    "/loops": { GET: { needs: TO_MANAGE_REPO, handle: showBranchLoops } },
    "/public": { PUT: { needs: TO_MANAGE_REPO, handle: setPublic } },
    "/keep": { PUT: { needs: TO_MANAGE_REPO, handle: setKeep } },
    "/writer": { PUT: { needs: TO_MANAGE_REPO, handle: setWriter } },
    "/last-modified": { PUT: { needs: TO_MANAGE_REPO, handle: setLastModified } },
    "/empty-only": { PUT: { needs: TO_MANAGE_REPO, handle: setEmptyOnly } },
    "/commits": {
      GET: { needs: TO_READ_REPO, query: true, handle: listCommits },
      POST: { needs: TO_REPO, body: COMMIT_BODY, handle: createCommit },
    },
    "/commits/:commit": { GET: { needs: TO_READ_REPO, handle: inspectCommit } },
    "/commits/:commit/diff": { GET: { needs: TO_READ_REPO, query: true, handle: diffCommit } },
    "/commits/:commit/revert": { POST: { needs: TO_REPO, handle: revertCommit } },
    "/commits/:commit/redact": { POST: { needs: TO_MANAGE_REPO, handle: redactAnnotation } },
    "/commits/:commit/provenance": { GET: { needs: TO_READ_REPO, query: true, handle: readProvenance } },
    "/commits/:commit/derived": { GET: { needs: TO_READ_REPO, query: true, handle: readDerived } },
    "/commits/:commit/downstream": { GET: { needs: TO_READ_REPO, query: true, handle: readDownstream } },
    "/commits/:commit/files": {
      GET: { needs: TO_READ_REPO, granted: grantsFiles, query: true, handle: listFiles },
    },
    "/erasures": { POST: { needs: TO_MANAGE_REPO, handle: eraseFile } },
    "/sessions": {
      GET: { needs: TO_REPO, query: true, handle: listOpenCommits },
      POST: { needs: TO_REPO, handle: startOpenCommit },
    },
    "/sessions/:session/diff": { GET: { needs: TO_REPO, query: true, handle: diffOpenCommit } },
    "/exports": { POST: { needs: TO_MANAGE_REPO, handle: beginExport } },
    "/exports/:export": { DELETE: { needs: TO_MANAGE_REPO, handle: endExport } },
    "/exports/:export/commits": { GET: { needs: TO_MANAGE_REPO, query: true, handle: exportCommits } },
    "/exports/:export/tags": { GET: { needs: TO_MANAGE_REPO, query: true, handle: exportTags } },
    "/exports/:export/files": { GET: { needs: TO_MANAGE_REPO, query: true, handle: exportFiles } },
    "/imports": { POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: beginImport } },
    "/imports/:import": { DELETE: { needs: TO_MANAGE_REPO, handle: abortImport } },
    "/imports/:import/commits": {
      POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importCommits },
    },
    "/imports/:import/tags": { POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importTags } },
    "/imports/:import/files": { POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importFiles } },
    "/imports/:import/finish": { POST: { needs: TO_MANAGE_REPO, handle: finishImport } },
    "/sessions/:session": {
      GET: { needs: TO_REPO, handle: inspectOpenCommit },
      DELETE: { needs: TO_REPO, handle: abortOpenCommit },
    },
    "/sessions/:session/finish": { POST: { needs: TO_REPO, handle: finishOpenCommit } },
    "/tags/:tag": {
      GET: { needs: TO_READ_REPO, handle: inspectTag },
      PUT: { needs: TO_REPO, handle: setTag },
      DELETE: { needs: TO_REPO, handle: deleteTag },
    },
    "/contents/:content": { GET: { needs: TO_READ_REPO, granted: grantsContents, handle: readContents } },
  }),
  ...below("/pipelines/:pipeline", {
    "": {
      GET: { needs: TO_READ_PIPELINE, handle: inspectPipeline },
      DELETE: { needs: TO_CHANGE_PIPELINE, query: true, handle: deletePipeline },
    },
    "/summary": { GET: { needs: TO_READ_PIPELINE, handle: summarizePipeline } },
    "/versions": { GET: { needs: TO_READ_PIPELINE, query: true, handle: listPipelineVersions } },
    "/versions/:version": { GET: { needs: TO_READ_PIPELINE, handle: inspectPipelineVersion } },
    "/loops": { GET: { needs: TO_CHANGE_PIPELINE, handle: showLoops } },
    "/stop": { POST: { needs: TO_CHANGE_PIPELINE, handle: stopPipeline } },
    "/start": { POST: { needs: TO_RUN_PIPELINE, handle: startPipeline } },
  }),
  ...below("/jobs/:job", {
    "": { GET: { needs: TO_READ_JOB, query: true, handle: inspectJob } },
    "/summary": { GET: { needs: TO_READ_JOB, handle: summarizeJob } },
    "/stop": { POST: { needs: [{ permission: "admin", of: jobRepo }], handle: stopJob } },
    "/retry": { POST: { needs: TO_RUN_JOB, query: true, handle: retryJob } },
    "/datums": { GET: { needs: TO_READ_JOB, query: true, handle: listDatums } },
    "/datums/:datum": {
      GET: {
        needs: [
          { permission: "read", of: jobRepo },
          { permission: "read", of: jobInputs },
        ],
        handle: inspectDatum,
      },
    },
    "/datums/:datum/outputs": { GET: { needs: TO_READ_JOB, query: true, handle: listDatumOutputs } },
    "/logs": { GET: { needs: TO_READ_JOB, query: true, handle: readLogs } },
  }),
  ...below("/uploads", {
    "": { POST: { needs: TO_OPEN_UPLOAD, granted: grantsNewUpload, handle: openUpload } },
    "/:upload/reserve": {
      POST: { needs: TO_UPLOAD, granted: grantsUpload, body: DIGESTS_BODY, handle: reserveContents },
    },
    "/:upload/compose": {
      POST: { needs: TO_UPLOAD, granted: grantsUpload, body: DIGESTS_BODY, handle: composeContents },
    },
    "/:upload/contents": {
      POST: { needs: TO_UPLOAD, granted: grantsUpload, body: CONTENTS_BODY, handle: addInlineContents },
      PUT: { needs: TO_UPLOAD, granted: grantsUpload, query: true, handle: addContent },
    },
  }),
  ...below("/runner", {
    "/heartbeat": {
      POST: { needs: FLEET, handle: heartbeat },
      DELETE: { needs: FLEET, query: true, handle: leave },
    },
    "/lease": { POST: { needs: FLEET, handle: lease } },
    "/renew": { POST: { needs: FLEET, handle: renew } },
    "/finish": { POST: { needs: FLEET, body: OUTCOMES_BODY, handle: finish } },
    "/logs": { POST: { needs: FLEET, body: LOGS_BODY, handle: addLogs } },
  }),
};
