import {
  deleteBucketPolicy,
  getBucketAcl,
  getBucketPolicy,
  getBucketPolicyStatus,
  getObjectAcl,
  putBucketAcl,
  putBucketPolicy,
  putObjectAcl,
} from "./buckets/access.ts";
import { createBucket, deleteBucket, getBucketLocation, headBucket } from "./buckets/bucket.ts";
import { FIXED_SETTINGS } from "./buckets/fixed-settings.ts";
import { CORS, LIFECYCLE } from "./buckets/kept-settings.ts";
import { listBuckets } from "./buckets/list-buckets.ts";
import { OBJECT_LOCKS } from "./buckets/object-lock.ts";
import { copyObject } from "./copy/copy-object.ts";
import { type FormRequest, postObject } from "./forms/post-object.ts";
import { listObjectVersions } from "./listings/list-object-versions.ts";
import { listObjects, listObjectsV2 } from "./listings/list-objects.ts";
import { abortMultipartUpload } from "./multipart/abort-multipart-upload.ts";
import { completeMultipartUpload } from "./multipart/complete-multipart-upload.ts";
import { createMultipartUpload } from "./multipart/create-multipart-upload.ts";
import { listMultipartUploads } from "./multipart/list-multipart-uploads.ts";
import { listParts } from "./multipart/list-parts.ts";
import { uploadPart } from "./multipart/upload-part.ts";
import { uploadPartCopy } from "./multipart/upload-part-copy.ts";
import { deleteObject } from "./objects/delete-object.ts";
import { deleteObjects } from "./objects/delete-objects.ts";
import { getObject, headObject } from "./objects/get-object.ts";
import { getObjectAttributes } from "./objects/get-object-attributes.ts";
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from "./objects/object-tagging.ts";
import { putObject } from "./objects/put-object.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";

/** Every operation there is, by the level of its address and the name that detect.ts finds. */
export const SERVICE_OPERATIONS = {
  ListBuckets: listBuckets,
} satisfies Record<string, Operation<ServiceRequest>>;

export const BUCKET_OPERATIONS = {
  ...FIXED_SETTINGS,
  CreateBucket: createBucket,
  DeleteBucket: deleteBucket,
  DeleteBucketCors: CORS.remove,
  DeleteBucketLifecycle: LIFECYCLE.remove,
  DeleteBucketPolicy: deleteBucketPolicy,
  DeleteObjects: deleteObjects,
  GetBucketAcl: getBucketAcl,
  GetBucketCors: CORS.get,
  GetBucketLifecycleConfiguration: LIFECYCLE.get,
  GetBucketLocation: getBucketLocation,
  GetBucketPolicy: getBucketPolicy,
  GetBucketPolicyStatus: getBucketPolicyStatus,
  HeadBucket: headBucket,
  ListMultipartUploads: listMultipartUploads,
  ListObjects: listObjects,
  ListObjectsV2: listObjectsV2,
  ListObjectVersions: listObjectVersions,
  PutBucketAcl: putBucketAcl,
  PutBucketCors: CORS.put,
  PutBucketLifecycleConfiguration: LIFECYCLE.put,
  PutBucketPolicy: putBucketPolicy,
} satisfies Record<string, Operation<BucketRequest>>;

export const OBJECT_OPERATIONS = {
  ...OBJECT_LOCKS,
  CopyObject: copyObject,
  CreateMultipartUpload: createMultipartUpload,
  DeleteObject: deleteObject,
  DeleteObjectTagging: deleteObjectTagging,
  GetObject: getObject,
  GetObjectAcl: getObjectAcl,
  GetObjectAttributes: getObjectAttributes,
  GetObjectTagging: getObjectTagging,
  HeadObject: headObject,
  PutObject: putObject,
  PutObjectAcl: putObjectAcl,
  PutObjectTagging: putObjectTagging,
} satisfies Record<string, Operation<ObjectRequest>>;

/** Operations on a multipart upload, which may be addressed with its key or without. */
export const UPLOAD_OPERATIONS = {
  AbortMultipartUpload: abortMultipartUpload,
  CompleteMultipartUpload: completeMultipartUpload,
  ListParts: listParts,
  UploadPart: uploadPart,
  UploadPartCopy: uploadPartCopy,
} satisfies Record<string, Operation<UploadRequest>>;

/** Operations whose request is a form, which is read as far as its file before they are called. */
export const FORM_OPERATIONS = {
  PostObject: postObject,
} satisfies Record<string, Operation<FormRequest>>;

export type ServiceOperationName = keyof typeof SERVICE_OPERATIONS;
export type BucketOperationName = keyof typeof BUCKET_OPERATIONS;
export type ObjectOperationName = keyof typeof OBJECT_OPERATIONS;
export type UploadOperationName = keyof typeof UPLOAD_OPERATIONS;
