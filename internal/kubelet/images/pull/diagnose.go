package pull

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// diagnoseTimeout bounds how long a registry is asked for its tags.
const diagnoseTimeout = 2 * time.Second

// diagnose notes which tags there are when the one wanted is not. A registry that does not tell is
// no news.
func (p *Puller) diagnose(ctx context.Context, t *podPull, spec *runtimeapi.ImageSpec, err error) {
	if p.d.Tags == nil || !strings.Contains(err.Error(), "not found") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	var auth *runtimeapi.AuthConfig
	if creds := p.credentials(ctx, t, spec); len(creds) > 0 {
		auth = creds[0].Auth
	}
	if tags, err := p.d.Tags(ctx, spec.Image, auth); err == nil {
		t.put(journal.ImageTags{Image: t.image, Tags: tags})
	}
}

// pullSecrets tells of the Pod's imagePullSecrets which registries they are for, and which of them
// cannot be used.
func (t *podPull) pullSecrets() []journal.PullSecret {
	var out []journal.PullSecret
	for _, ref := range t.Pod.Spec.ImagePullSecrets {
		s := journal.PullSecret{Name: ref.Name}
		i := slices.IndexFunc(t.Secrets, func(x *v1.Secret) bool { return x.Name == ref.Name })
		if i < 0 {
			s.Error = fmt.Sprintf("secret %q not found", ref.Name)
		} else if hosts, err := images.Registries(t.Secrets[i]); err != nil {
			s.Error = err.Error()
		} else {
			s.Hosts = hosts
		}
		out = append(out, s)
	}
	return out
}
