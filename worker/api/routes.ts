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
import { diffCommit, inspectCommit, listCommits, redactNote } from "./commits/log.ts";
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
const TO_REPO = [{ permission: "write", of: repoInPath }] as const;
const TO_MANAGE_REPO = [{ permission: "admin", of: repoInPath }] as const;
const TO_READ_REPO = [{ permission: "read", of: repoInPath }] as const;
const TO_CHANGE_PIPELINE = [{ permission: "admin", of: pipelineInPath }] as const;
/** A start makes its code run over all of its inputs. */
const TO_RUN_PIPELINE = [
  { permission: "admin", of: pipelineInPath },
  { permission: "run", of: pipelineInPath },
  { permission: "read", of: pipelineInputs },
] as const;
const TO_RUN_JOB = [
  { permission: "admin", of: jobRepo },
  { permission: "run", of: jobRepo },
  { permission: "read", of: retryInputs },
] as const;
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

/** Every route: path, then method, to what it needs, what its body may hold, and what it does. */
export const ROUTES: Readonly<Record<string, Readonly<Record<string, Route>>>> = {
  "/pipelines": {
    GET: { needs: [{ permission: "list", of: noRepo }], handle: listPipelines },
    POST: {
      needs: [
        { permission: "admin", of: newPipelineRepo },
        { permission: "run", of: newPipelineRepo },
        { permission: "read", of: newPipelineInputs },
      ],
      body: SPEC_BODY,
      handle: createPipeline,
    },
  },
  "/pipelines/:pipeline": {
    GET: { needs: [{ permission: "read", of: pipelineInPath }], handle: inspectPipeline },
    DELETE: { needs: TO_CHANGE_PIPELINE, handle: deletePipeline },
  },
  "/pipelines/:pipeline/summary": {
    GET: { needs: [{ permission: "read", of: pipelineInPath }], handle: summarizePipeline },
  },
  "/pipelines/:pipeline/versions": {
    GET: { needs: [{ permission: "read", of: pipelineInPath }], handle: listPipelineVersions },
  },
  "/pipelines/:pipeline/versions/:version": {
    GET: { needs: [{ permission: "read", of: pipelineInPath }], handle: inspectPipelineVersion },
  },
  "/pipelines/:pipeline/loops": { GET: { needs: TO_CHANGE_PIPELINE, handle: showLoops } },
  "/graph": { GET: { needs: [{ permission: "list", of: noRepo }], handle: showGraph } },
  "/pipelines/:pipeline/stop": { POST: { needs: TO_CHANGE_PIPELINE, handle: stopPipeline } },
  "/pipelines/:pipeline/start": { POST: { needs: TO_RUN_PIPELINE, handle: startPipeline } },
  "/now": { GET: { needs: [{ permission: "list", of: noRepo }], handle: showNow } },
  "/jobs": { GET: { needs: [{ permission: "list", of: jobsRepo }], handle: listJobs } },
  "/jobs/:job": { GET: { needs: [{ permission: "read", of: jobRepo }], handle: inspectJob } },
  "/jobs/:job/summary": { GET: { needs: [{ permission: "read", of: jobRepo }], handle: summarizeJob } },
  "/jobs/:job/stop": { POST: { needs: [{ permission: "admin", of: jobRepo }], handle: stopJob } },
  "/jobs/:job/retry": { POST: { needs: TO_RUN_JOB, handle: retryJob } },
  "/jobs/:job/datums": { GET: { needs: [{ permission: "read", of: jobRepo }], handle: listDatums } },
  "/jobs/:job/datums/:datum": {
    GET: {
      needs: [
        { permission: "read", of: jobRepo },
        { permission: "read", of: jobInputs },
      ],
      handle: inspectDatum,
    },
  },
  "/jobs/:job/datums/:datum/outputs": {
    GET: { needs: [{ permission: "read", of: jobRepo }], handle: listDatumOutputs },
  },
  "/jobs/:job/logs": { GET: { needs: [{ permission: "read", of: jobRepo }], handle: readLogs } },
  "/fsck": { GET: { needs: MANAGE, handle: listForCheck } },
  "/repos/:repo/branches/:branch/fsck": { POST: { needs: MANAGE, body: TOKEN_BODY, handle: checkBranch } },
  "/repos/:repo/branches/:branch/sweep": {
    GET: { needs: MANAGE, handle: sweepState },
    POST: { needs: MANAGE, handle: startSweep },
  },
  "/repos": { GET: { needs: [{ permission: "list", of: noRepo }], handle: listRepos } },
  "/repos/:repo/usage": { GET: { needs: TO_READ_REPO, handle: repoUsage } },
  "/usage": { GET: { needs: [{ permission: "read", of: noRepo }], handle: catalogueUsage } },
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
  "/repos/:repo/branches/:branch": {
    GET: { needs: TO_READ_REPO, handle: inspectBranch },
    DELETE: { needs: TO_MANAGE_REPO, handle: deleteBranch },
  },
  "/repos/:repo/branches/:branch/loops": { GET: { needs: TO_MANAGE_REPO, handle: showBranchLoops } },
  "/repos/:repo/branches/:branch/public": { PUT: { needs: TO_MANAGE_REPO, handle: setPublic } },
  "/repos/:repo/branches/:branch/keep": { PUT: { needs: TO_MANAGE_REPO, handle: setKeep } },
  "/repos/:repo/branches/:branch/writer": { PUT: { needs: TO_MANAGE_REPO, handle: setWriter } },
  "/repos/:repo/branches/:branch/last-modified": {
    PUT: { needs: TO_MANAGE_REPO, handle: setLastModified },
  },
  "/repos/:repo/branches/:branch/empty-only": { PUT: { needs: TO_MANAGE_REPO, handle: setEmptyOnly } },
  "/repos/:repo/branches/:branch/commits": {
    GET: { needs: TO_READ_REPO, handle: listCommits },
    POST: { needs: TO_REPO, body: COMMIT_BODY, handle: createCommit },
  },
  "/repos/:repo/branches/:branch/commits/:commit": { GET: { needs: TO_READ_REPO, handle: inspectCommit } },
  "/repos/:repo/branches/:branch/commits/:commit/diff": { GET: { needs: TO_READ_REPO, handle: diffCommit } },
  "/repos/:repo/branches/:branch/commits/:commit/revert": { POST: { needs: TO_REPO, handle: revertCommit } },
  "/repos/:repo/branches/:branch/commits/:commit/redact": {
    POST: { needs: TO_MANAGE_REPO, handle: redactNote },
  },
  "/repos/:repo/branches/:branch/commits/:commit/provenance": {
    GET: { needs: TO_READ_REPO, handle: readProvenance },
  },
  "/repos/:repo/branches/:branch/commits/:commit/derived": {
    GET: { needs: TO_READ_REPO, handle: readDerived },
  },
  "/repos/:repo/branches/:branch/commits/:commit/downstream": {
    GET: { needs: TO_READ_REPO, handle: readDownstream },
  },
  "/repos/:repo/branches/:branch/commits/:commit/files": {
    GET: { needs: TO_READ_REPO, granted: grantsFiles, handle: listFiles },
  },
  "/repos/:repo/branches/:branch/erasures": { POST: { needs: TO_MANAGE_REPO, handle: eraseFile } },
  "/repos/:repo/branches/:branch/sessions": {
    GET: { needs: TO_REPO, handle: listOpenCommits },
    POST: { needs: TO_REPO, handle: startOpenCommit },
  },
  "/repos/:repo/branches/:branch/sessions/:session/diff": { GET: { needs: TO_REPO, handle: diffOpenCommit } },
  "/repos/:repo/branches/:branch/exports": { POST: { needs: TO_MANAGE_REPO, handle: beginExport } },
  "/repos/:repo/branches/:branch/exports/:export": { DELETE: { needs: TO_MANAGE_REPO, handle: endExport } },
  "/repos/:repo/branches/:branch/exports/:export/commits": {
    GET: { needs: TO_MANAGE_REPO, handle: exportCommits },
  },
  "/repos/:repo/branches/:branch/exports/:export/tags": {
    GET: { needs: TO_MANAGE_REPO, handle: exportTags },
  },
  "/repos/:repo/branches/:branch/exports/:export/files": {
    GET: { needs: TO_MANAGE_REPO, handle: exportFiles },
  },
  "/repos/:repo/branches/:branch/imports": {
    POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: beginImport },
  },
  "/repos/:repo/branches/:branch/imports/:import": {
    DELETE: { needs: TO_MANAGE_REPO, handle: abortImport },
  },
  "/repos/:repo/branches/:branch/imports/:import/commits": {
    POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importCommits },
  },
  "/repos/:repo/branches/:branch/imports/:import/tags": {
    POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importTags },
  },
  "/repos/:repo/branches/:branch/imports/:import/files": {
    POST: { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY, handle: importFiles },
  },
  "/repos/:repo/branches/:branch/imports/:import/finish": {
    POST: { needs: TO_MANAGE_REPO, handle: finishImport },
  },
  "/repos/:repo/branches/:branch/sessions/:session": {
    GET: { needs: TO_REPO, handle: inspectOpenCommit },
    DELETE: { needs: TO_REPO, handle: abortOpenCommit },
  },
  "/repos/:repo/branches/:branch/sessions/:session/finish": {
    POST: { needs: TO_REPO, handle: finishOpenCommit },
  },
  "/repos/:repo/tags": { GET: { needs: TO_READ_REPO, handle: listTags } },
  "/repos/:repo/branches/:branch/tags/:tag": {
    GET: { needs: TO_READ_REPO, handle: inspectTag },
    PUT: { needs: TO_REPO, handle: setTag },
    DELETE: { needs: TO_REPO, handle: deleteTag },
  },
  "/repos/:repo/branches/:branch/contents/:content": {
    GET: { needs: TO_READ_REPO, granted: grantsContents, handle: readContents },
  },
  "/uploads": {
    POST: {
      needs: [{ permission: "write", of: newUploadRepo }],
      granted: grantsNewUpload,
      handle: openUpload,
    },
  },
  "/uploads/:upload/reserve": {
    POST: { needs: TO_UPLOAD, granted: grantsUpload, body: DIGESTS_BODY, handle: reserveContents },
  },
  "/uploads/:upload/compose": {
    POST: { needs: TO_UPLOAD, granted: grantsUpload, body: DIGESTS_BODY, handle: composeContents },
  },
  "/uploads/:upload/contents": {
    POST: { needs: TO_UPLOAD, granted: grantsUpload, body: CONTENTS_BODY, handle: addInlineContents },
    PUT: { needs: TO_UPLOAD, granted: grantsUpload, handle: addContent },
  },
  "/runner/heartbeat": {
    POST: { needs: FLEET, handle: heartbeat },
    DELETE: { needs: FLEET, handle: leave },
  },
  "/runner/lease": { POST: { needs: FLEET, handle: lease } },
  "/runner/renew": { POST: { needs: FLEET, handle: renew } },
  "/runner/finish": { POST: { needs: FLEET, body: OUTCOMES_BODY, handle: finish } },
  "/runner/logs": { POST: { needs: FLEET, body: LOGS_BODY, handle: addLogs } },
  "/nodes": { GET: { needs: [{ permission: "read", of: noRepo }], handle: listNodes } },
  "/nodes/:node/drain": { POST: { needs: MANAGE, handle: drainNode } },
  "/nodes/:node/resume": { POST: { needs: MANAGE, handle: resumeNode } },
  "/admin/log": { GET: { needs: MANAGE, handle: showLog } },
  "/admin/rebuild": { POST: { needs: MANAGE, handle: rebuild } },
  "/admin/scrub": {
    GET: { needs: MANAGE, handle: scrubState },
    POST: { needs: MANAGE, handle: startScrub },
  },
  "/keys": {
    GET: { needs: MANAGE, handle: listKeys },
    POST: { needs: MANAGE, handle: createKey },
  },
  "/whoami": { GET: { needs: ANY_KEY, handle: whoAmI } },
  "/keys/export": { POST: { needs: MANAGE, handle: exportAccessKeys } },
  "/keys/import": { POST: { needs: MANAGE, body: KEYS_BODY, handle: importAccessKeys } },
  "/keys/reseal": { POST: { needs: MANAGE, handle: reseal } },
  "/keys/:key": { DELETE: { needs: MANAGE, handle: deleteKey } },
};
