package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/journal"
)

// ErrNoJournal says that an API server keeps no journal: it is not Gantry's.
var ErrNoJournal = errors.New("this API server keeps no journal")

// Read asks the API server for the entries of one Pod, oldest first.
func Read(ctx context.Context, c kubernetes.Interface, namespace, name string) ([]journal.Entry, error) {
	return ReadOf(ctx, c, journal.Ref{Namespace: namespace, Name: name})
}

// ReadOf is Read of an object of any kind.
func ReadOf(ctx context.Context, c kubernetes.Interface, r journal.Ref) ([]journal.Entry, error) {
	namespace, name := r.Namespace, r.Name
	failed := func(err error) error {
		return fmt.Errorf("journal of %s %s/%s: %w", strings.ToLower(cmp.Or(r.Kind, "Pod")), namespace, name, err)
	}
	ask := c.Discovery().RESTClient().Get().AbsPath(apiPath, "namespaces", namespace,
		"podjournals", name).SetHeader("Accept", "application/json")
	if r.Kind != "" {
		ask = ask.Param("kind", r.Kind)
	}
	raw, err := ask.DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		version := strings.TrimPrefix(apiPath, "/apis/")
		if _, err := c.Discovery().ServerResourcesForGroupVersion(version); apierrors.IsNotFound(err) {
			return nil, ErrNoJournal
		}
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	var answer struct {
		Entries []journal.Entry `json:"entries"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, failed(err)
	}
	return answer.Entries, nil
}
