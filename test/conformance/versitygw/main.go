// Runs the tests of versitygw against the gateway that the environment names, as its own command does, and prints what
// each came to as a line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/tests/integration"
)

const region = "us-east-1"

// The suite runs these, and has them in no list by name.
var unlisted = integration.IntTests{
	"ListMultipartUploads_delimiter_no_matches": integration.ListMultipartUploads_delimiter_no_matches,
	"ListObjectsV2_exceeding_max_keys":          integration.ListObjectsV2_exceeding_max_keys,
	"ListObjects_exceeding_max_keys":            integration.ListObjects_exceeding_max_keys,
	"ListParts_exceeding_max_parts":             integration.ListParts_exceeding_max_parts,
}

type outcome struct {
	Test   string `json:"test"`
	Passed bool   `json:"passed"`
	Said   string `json:"said"`
}

func main() {
	source := flag.String("source", "", "the folder with the sources of the tests")
	atOnce := flag.Int("at-once", 1, "how many tests run at the same time")
	flag.Parse()
	if err := run(*source, *atOnce, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// run runs the tests that only names, or all.
func run(source string, atOnce int, only []string) error {
	names, alone, err := listed(source, "TestFullFlow")
	if err != nil {
		return err
	}
	if len(only) > 0 {
		names = only
	}
	tests := integration.GetIntTests()
	for name, test := range unlisted {
		tests[name] = test
	}
	for _, name := range names {
		if tests[name] == nil {
			return fmt.Errorf("the test %s is not there", name)
		}
	}
	if integration.OwnerID, err = owner(); err != nil {
		return err
	}
	conf := integration.NewS3Conf(
		integration.WithAccess(os.Getenv("AWS_ACCESS_KEY_ID")),
		integration.WithSecret(os.Getenv("AWS_SECRET_ACCESS_KEY")),
		integration.WithRegion(region),
		integration.WithEndpoint(os.Getenv("AWS_ENDPOINT_URL")),
	)
	told := json.NewEncoder(os.Stdout)
	// What the tests print themselves is for people.
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return err
	}
	inTurn(names, atOnce, alone, func(name string) outcome {
		return outcomeOf(name, tests[name], conf)
	}, told)
	return nil
}

// inTurn runs the tests, at last those that bear no others beside them.
func inTurn(names []string, atOnce int, alone map[string]bool, test func(string) outcome, told *json.Encoder) {
	var telling sync.Mutex
	tell := func(name string) {
		result := test(name)
		telling.Lock()
		defer telling.Unlock()
		if err := told.Encode(result); err != nil {
			log.Fatal(err)
		}
	}
	queue := make(chan string)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for name := range queue {
				tell(name)
			}
		})
	}
	for _, name := range names {
		if !alone[name] {
			queue <- name
		}
	}
	close(queue)
	workers.Wait()
	for _, name := range names {
		if alone[name] {
			tell(name)
		}
	}
}

// outcomeOf runs a test. One that panics has failed, and takes no other with it.
func outcomeOf(name string, test integration.IntTest, conf *integration.S3Conf) (result outcome) {
	result.Test = name
	defer func() {
		if panicked := recover(); panicked != nil {
			result.Passed, result.Said = false, fmt.Sprintf("panic: %v", panicked)
		}
	}()
	if err := test(conf); err != nil {
		result.Said = err.Error()
		return result
	}
	result.Passed = true
	return result
}

// owner returns the id of whoever owns the buckets that are made here.
func owner() (string, error) {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return "", err
	}
	buckets, err := s3.NewFromConfig(settings).ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil {
		return "", err
	}
	return *buckets.Owner.ID, nil
}
