import type {
  BucketOperationName,
  ObjectOperationName,
  ServiceOperationName,
  UploadOperationName,
} from "./detect.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";
import { abortMultipartUpload } from "./ops/abort-multipart-upload.ts";
import { completeMultipartUpload } from "./ops/complete-multipart-upload.ts";
import { copyObject } from "./ops/copy-object.ts";
import { createBucket } from "./ops/create-bucket.ts";
import { createMultipartUpload } from "./ops/create-multipart-upload.ts";
import { deleteBucket } from "./ops/delete-bucket.ts";
import { deleteObject } from "./ops/delete-object.ts";
import { deleteObjects } from "./ops/delete-objects.ts";
import { getBucketLocation } from "./ops/get-bucket-location.ts";
import { getBucketVersioning } from "./ops/get-bucket-versioning.ts";
import { getObject } from "./ops/get-object.ts";
import { getObjectAttributes } from "./ops/get-object-attributes.ts";
import { getObjectTagging } from "./ops/get-object-tagging.ts";
import { headBucket } from "./ops/head-bucket.ts";
import { headObject } from "./ops/head-object.ts";
import { listBuckets } from "./ops/list-buckets.ts";
import { listMultipartUploads } from "./ops/list-multipart-uploads.ts";
import { listObjectVersions } from "./ops/list-object-versions.ts";
import { listObjects } from "./ops/list-objects.ts";
import { listObjectsV2 } from "./ops/list-objects-v2.ts";
import { listParts } from "./ops/list-parts.ts";
import { putObject } from "./ops/put-object.ts";
import { uploadPart } from "./ops/upload-part.ts";
import { uploadPartCopy } from "./ops/upload-part-copy.ts";

/** Every operation there is, by the level of its address and the name that detect.ts finds. */
export const SERVICE_OPERATIONS: Record<ServiceOperationName, Operation<ServiceRequest>> = {
  ListBuckets: listBuckets,
};

export const BUCKET_OPERATIONS: Record<BucketOperationName, Operation<BucketRequest>> = {
  CreateBucket: createBucket,
  DeleteBucket: deleteBucket,
  DeleteObjects: deleteObjects,
  GetBucketLocation: getBucketLocation,
  GetBucketVersioning: getBucketVersioning,
  HeadBucket: headBucket,
  ListMultipartUploads: listMultipartUploads,
  ListObjects: listObjects,
  ListObjectsV2: listObjectsV2,
  ListObjectVersions: listObjectVersions,
};

export const OBJECT_OPERATIONS: Record<ObjectOperationName, Operation<ObjectRequest>> = {
  CopyObject: copyObject,
  CreateMultipartUpload: createMultipartUpload,
  DeleteObject: deleteObject,
  GetObject: getObject,
  GetObjectAttributes: getObjectAttributes,
  GetObjectTagging: getObjectTagging,
  HeadObject: headObject,
  PutObject: putObject,
};

export const UPLOAD_OPERATIONS: Record<UploadOperationName, Operation<UploadRequest>> = {
  AbortMultipartUpload: abortMultipartUpload,
  CompleteMultipartUpload: completeMultipartUpload,
  ListParts: listParts,
  UploadPart: uploadPart,
  UploadPartCopy: uploadPartCopy,
};
