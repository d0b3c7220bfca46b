package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Job from a cache that lags behind what was written is not worked on; the change that catches up is looked at without delay.
func TestAJobOlderThanWhatWasWrittenWaits(t *testing.T) {
	c := &controller{wrote: map[types.UID]string{}, failed: nil}
	at := func(version string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u", ResourceVersion: version, Generation: 1}}
	}
	if c.behind(at("9")) {
		t.Error("nothing was written")
	}
	c.wrote["u"] = "10"
	if !c.behind(at("9")) || c.behind(at("10")) || c.behind(at("11")) {
		t.Error("9 is older than 10, 10 and 11 are not")
	}
	if keys := c.jobChanged(at("9"), at("10")); len(keys) != 1 || keys[0] != "n/j" {
		t.Errorf("looks at %q", keys)
	}
	if c.behind(at("9")) {
		t.Error("what was seen is still waited for")
	}
	c.wrote["u"] = "12"
	if keys := c.jobChanged(at("10"), nil); len(keys) != 1 || len(c.wrote) != 0 {
		t.Errorf("a Job that went: looks at %q, remembers %v", keys, c.wrote)
	}
}
