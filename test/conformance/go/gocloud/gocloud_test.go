// Package gocloud holds gocloud.dev's conformance tests of a driver to its driver of S3, with the gateway behind it.
package gocloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"testing"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/drivertest"
	"gocloud.dev/blob/s3blob"
)

// The SDK of AWS reads from the environment where the gateway is, and the key for it.
const bucket = "gocloud-conformance"

func TestMain(m *testing.M) {
	ctx := context.Background()
	client, err := newClient(ctx)
	if err == nil {
		_, err = client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	drivertest.RunConformanceTests(t, harnessWith(nil), []drivertest.AsTest{contentLanguage{}})
}

func TestConformanceUsingLegacyList(t *testing.T) {
	options := &s3blob.Options{UseLegacyList: true}
	drivertest.RunConformanceTests(t, harnessWith(options), []drivertest.AsTest{contentLanguage{}})
}

type harness struct {
	client  *s3.Client
	options *s3blob.Options
}

func harnessWith(options *s3blob.Options) drivertest.HarnessMaker {
	return func(ctx context.Context, t *testing.T) (drivertest.Harness, error) {
		t.Helper()
		client, err := newClient(ctx)
		return &harness{client: client, options: options}, err
	}
}

func newClient(ctx context.Context) (*s3.Client, error) {
	loaded, err := config.LoadDefaultConfig(ctx)
	return s3.NewFromConfig(loaded, func(o *s3.Options) { o.UsePathStyle = true }), err
}

func (h *harness) MakeDriver(ctx context.Context) (driver.Bucket, error) {
	return h.open(ctx, bucket)
}

func (h *harness) MakeDriverForNonexistentBucket(ctx context.Context) (driver.Bucket, error) {
	return h.open(ctx, "is-not-there")
}

func (h *harness) open(ctx context.Context, name string) (driver.Bucket, error) {
	opened, err := s3blob.OpenBucket(ctx, h.client, name, h.options)
	if err != nil {
		return nil, err
	}
	return driverOf(opened), nil
}

// The tests want a driver, and the package gives a bucket, which keeps its driver to itself.
func driverOf(opened *blob.Bucket) driver.Bucket {
	kept := reflect.ValueOf(opened).Elem().FieldByName("b")
	return *(*driver.Bucket)(unsafe.Pointer(kept.UnsafeAddr()))
}

func (*harness) HTTPClient() *http.Client         { return http.DefaultClient }
func (*harness) SupportsCopy() bool               { return true }
func (*harness) SupportsNonSlashDelimiters() bool { return true }
func (*harness) SkipDownloadAt() bool             { return false }
func (*harness) Close()                           {}

// contentLanguage writes a language by the types that AWS has for an upload, and reads it by those for what it answers.
type contentLanguage struct{}

const language = "nl"

func (contentLanguage) Name() string {
	return "a language that is set in the types of AWS is read from them"
}

func (contentLanguage) BucketCheck(b *blob.Bucket) error {
	var client *s3.Client
	return must(b.As(&client), "the client")
}

func (contentLanguage) ErrorCheck(b *blob.Bucket, err error) error {
	var answered smithy.APIError
	return must(b.ErrorAs(err, &answered), "the error")
}

func (contentLanguage) BeforeRead(as func(any) bool) error {
	var input *s3.GetObjectInput
	return must(as(&input), "what is asked for")
}

func (contentLanguage) BeforeWrite(as func(any) bool) error {
	var input *transfermanager.UploadObjectInput
	if !as(&input) {
		return must(false, "what is sent")
	}
	input.ContentLanguage = aws.String(language)
	return nil
}

func (contentLanguage) BeforeCopy(as func(any) bool) error {
	var input *s3.CopyObjectInput
	return must(as(&input), "what is copied")
}

func (contentLanguage) BeforeDelete(as func(any) bool) error {
	var input *s3.DeleteObjectInput
	return must(as(&input), "what is deleted")
}

func (contentLanguage) BeforeList(as func(any) bool) error {
	var input *s3.ListObjectsV2Input
	var legacy *s3.ListObjectsInput
	return must(as(&input) || as(&legacy), "what is listed")
}

func (contentLanguage) BeforeSign(as func(any) bool) error {
	var get *s3.GetObjectInput
	var put *s3.PutObjectInput
	var remove *s3.DeleteObjectInput
	return must(as(&get) || as(&put) || as(&remove), "what is signed")
}

func (contentLanguage) AttributesCheck(attributes *blob.Attributes) error {
	var head s3.HeadObjectOutput
	return must(attributes.As(&head) && aws.ToString(head.ContentLanguage) == language, "the answer to HEAD")
}

func (contentLanguage) ReaderCheck(reader *blob.Reader) error {
	var got s3.GetObjectOutput
	return must(reader.As(&got) && aws.ToString(got.ContentLanguage) == language, "the answer to GET")
}

func (contentLanguage) ListObjectCheck(entry *blob.ListObject) error {
	var object types.Object
	var prefix types.CommonPrefix
	if entry.IsDir {
		return must(entry.As(&prefix), "a directory in a list")
	}
	return must(entry.As(&object) && aws.ToString(object.Key) == entry.Key, "an object in a list")
}

func must(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New(what + " is not what AWS's types have for it")
}
