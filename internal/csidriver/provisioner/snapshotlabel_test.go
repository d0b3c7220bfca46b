package provisioner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// hasSnapshot is a driver that has one snapshot.
type hasSnapshot struct{ csipb.ControllerClient }

func (hasSnapshot) ListSnapshots(_ context.Context, r *csipb.ListSnapshotsRequest,
	_ ...grpc.CallOption) (*csipb.ListSnapshotsResponse, error) {
	out := &csipb.ListSnapshotsResponse{}
	if r.GetSnapshotId() == "here" {
		out.Entries = []*csipb.ListSnapshotsResponse_Entry{{}}
	}
	return out, nil
}

func contentJSON(name, driver, handle, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"7"%s},"spec":{"driver":%q,"source":{`+
		`"snapshotHandle":%q}}}`, name, more, driver, handle)
}

// A content that an administrator made of a snapshot becomes that node's which has the snapshot,
// whether it was there before or came later; others are left alone, and one whose label is refused
// keeps no other.
func TestContentsOfSnapshotsThatAreHereAreLabelled(t *testing.T) {
	const ours = "d.example.com"
	var mu sync.Mutex
	var patched []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == http.MethodPatch:
			body, _ := io.ReadAll(r.Body)
			if strings.HasSuffix(r.URL.Path, "/refused") {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			patched = append(patched, r.URL.Path[len("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/"):]+
				" "+string(body))
			fmt.Fprint(w, `{}`)
		case r.URL.Query().Get("watch") == "true":
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`, contentJSON("late", ours, "here", ""))
			fmt.Fprintf(w, `{"type":"DELETED","object":%s}`, contentJSON("deleted", ours, "here", ""))
		default:
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"9"},"items":[%s,%s,%s,%s,%s,%s,%s]}`,
				contentJSON("refused", ours, "here", ""),
				contentJSON("early", ours, "here", ""), contentJSON("elsewhere", ours, "there", ""),
				contentJSON("of-another", "x.example.com", "here", ""), contentJSON("dynamic", ours, "", ""),
				contentJSON("labelled", ours, "here", `,"labels":{"`+managedBySnapshotterLabel+`":"n2"}`),
				contentJSON("leaving", ours, "here", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`))
		}
	}))
	defer s.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	p := &Provisioner{o: Options{Client: client, Driver: ours, NodeName: "n1"}, driver: hasSnapshot{}}
	if err := p.followContents(t.Context()); err != nil {
		t.Fatal(err)
	}
	const body = ` {"metadata":{"labels":{"snapshot.storage.kubernetes.io/managed-by":"n1"},"resourceVersion":"7"}}`
	if want := []string{"early" + body, "late" + body}; !slices.Equal(patched, want) {
		t.Errorf("patched %v, want %v", patched, want)
	}
}
