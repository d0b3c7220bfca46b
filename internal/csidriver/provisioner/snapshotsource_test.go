package provisioner

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	readySnapshot = `{"metadata":{"uid":"s1"},"status":{"boundVolumeSnapshotContentName":"c1","readyToUse":true,` +
		`"restoreSize":"32Mi"}}`
	itsContent = `{"spec":{"driver":"d.example.com","volumeSnapshotRef":{"uid":"s1"},` +
		`"sourceVolumeMode":"Filesystem"},"status":{"snapshotHandle":"h1"}}`
)

// What a snapshot has to be for a claim to be made from it, in the words of the API.
func TestSnapshotsThatCannotBeRestoredAreRefused(t *testing.T) {
	for _, c := range []struct{ name, snapshot, content, size, want string }{
		{name: "as big as the claim", size: "32Mi"},
		{name: "smaller than the claim", size: "64Mi"},
		{name: "no words about size and mode", snapshot: strings.Replace(readySnapshot, `,"restoreSize":"32Mi"`, "", 1),
			content: strings.Replace(itsContent, `,"sourceVolumeMode":"Filesystem"`, "", 1), size: "1Mi"},
		{name: "bigger than the claim", size: "31Mi", want: "it has 32Mi, the claim asks for 31Mi"},
		{name: "not ready", snapshot: strings.Replace(readySnapshot, "true", "false", 1), size: "32Mi",
			want: "it is not ready to use"},
		{name: "without a content", snapshot: strings.Replace(readySnapshot, "c1", "", 1), size: "32Mi",
			want: "it is not ready to use"},
		{name: "without a handle", content: strings.Replace(itsContent, "h1", "", 1), size: "32Mi",
			want: "it is not ready to use"},
		{name: "being deleted", size: "32Mi", want: "it is being deleted",
			snapshot: strings.Replace(readySnapshot, `"uid":"s1"`,
				`"uid":"s1","deletionTimestamp":"2026-01-01T00:00:00Z"`, 1)},
		{name: "a content of another snapshot", content: strings.Replace(itsContent, "s1", "s2", 1), size: "32Mi",
			want: "its content c1 is bound to another snapshot"},
		{name: "another driver's", size: "32Mi", want: "it is of driver x.example.com",
			content: strings.Replace(itsContent, "d.example.com", "x.example.com", 1)},
		{name: "of a raw volume", content: strings.Replace(itsContent, "Filesystem", "Block", 1), size: "32Mi",
			want: "its volume mode is Block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s volumeSnapshot
			var content volumeSnapshotContent
			for text, into := range map[string]any{or(c.snapshot, readySnapshot): &s,
				or(c.content, itsContent): &content} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			claim := &v1.PersistentVolumeClaim{}
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(c.size)}
			got, err := (&Provisioner{o: here}).snapshotSource(claim, &s, &content)
			switch {
			case c.want == "" && (err != nil || got.GetSnapshot().GetSnapshotId() != "h1"):
				t.Errorf("got %v and error %v, want the snapshot h1", got, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v and error %v, want %q", got, err, c.want)
			}
		})
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
