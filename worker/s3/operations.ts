import { createBucket } from "./buckets/create-bucket.ts";
import { deleteBucket } from "./buckets/delete-bucket.ts";
import { getBucketLocation } from "./buckets/get-bucket-location.ts";
import { getBucketVersioning } from "./buckets/get-bucket-versioning.ts";
import { headBucket } from "./buckets/head-bucket.ts";
import { listBuckets } from "./buckets/list-buckets.ts";
import { copyObject } from "./copy/copy-object.ts";
import { listObjectVersions } from "./listings/list-object-versions.ts";
import { listObjects } from "./listings/list-objects.ts";
import { listObjectsV2 } from "./listings/list-objects-v2.ts";
import { abortMultipartUpload } from "./multipart/abort-multipart-upload.ts";
import { completeMultipartUpload } from "./multipart/complete-multipart-upload.ts";
import { createMultipartUpload } from "./multipart/create-multipart-upload.ts";
import { listMultipartUploads } from "./multipart/list-multipart-uploads.ts";
import { listParts } from "./multipart/list-parts.ts";
import { uploadPart } from "./multipart/upload-part.ts";
import { uploadPartCopy } from "./multipart/upload-part-copy.ts";
import { deleteObject } from "./objects/delete-object.ts";
import { deleteObjects } from "./objects/delete-objects.ts";
import { getObject } from "./objects/get-object.ts";
import { getObjectAttributes } from "./objects/get-object-attributes.ts";
import { getObjectTagging } from "./objects/get-object-tagging.ts";
import { headObject } from "./objects/head-object.ts";
import { putObject } from "./objects/put-object.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";
import type {
  BucketOperationName,
  ObjectOperationName,
  ServiceOperationName,
  UploadOperationName,
} from "./request/detect.ts";

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
