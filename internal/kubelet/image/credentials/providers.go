package credentials

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	config "k8s.io/kubelet/config/v1"
	"k8s.io/kubelet/config/v1beta1"
	protocol "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/gantry-project/gantry/internal/kubelet/image"
)

// Accounts is what plugins that work with service-account tokens need of the API.
type Accounts interface {
	Account(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Token is a token of the Pod's service account for the audience, bound to the Pod.
	Token(ctx context.Context, pod *v1.Pod, audience string) (string, error)
}

// Deps is what Providers work with.
type Deps struct {
	Files    Files
	Accounts Accounts         // nil: plugins that want tokens are not asked
	Configs  []string         // paths of Docker config.json files of the node; those that are not there are left out
	Now      func() time.Time // time.Now when nil
}

// Providers are the node's ways to log in.
type Providers struct {
	d    Deps
	list []config.CredentialProvider

	mu    sync.Mutex
	known map[string]kept      // answers that may be used again
	under map[string]*question // plugins that are running
}

type kept struct {
	logins map[string]image.Login
	until  time.Time
}

type question struct {
	done   chan struct{}
	answer *protocol.CredentialProviderResponse
	err    error
}

// New reads the configuration and makes sure that the plugins are there.
func New(d Deps) (*Providers, error) {
	list, err := d.Files.read()
	if err != nil {
		return nil, err
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Providers{d: d, list: list, known: map[string]kept{}, under: map[string]*question{}}, nil
}

// Credentials are what the node has for an image: plugins in their order, then the Docker configuration. What fails is reported beside what works.
func (p *Providers) Credentials(ctx context.Context, name string, pod *v1.Pod) ([]image.Credential, []error) {
	var out []image.Credential
	var bad []error
	for i := range p.list {
		got, err := p.ask(ctx, &p.list[i], name, pod)
		if err != nil {
			bad = append(bad, err)
		}
		out = append(out, got...)
	}
	for _, path := range p.d.Configs {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var got []image.Credential
		if err == nil {
			got, err = image.FromDockerConfig(name, image.Origin{Name: path}, text)
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("docker configuration %s: %w", path, err))
		}
		out = append(out, got...)
	}
	return out, bad
}

// matches tells whether the plugin is for the image.
func matches(c *config.CredentialProvider, name string) bool {
	for _, pattern := range c.MatchImages {
		if ok, err := image.Matches(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

// ask returns what a plugin has for the image, from memory when it may.
func (p *Providers) ask(ctx context.Context, c *config.CredentialProvider, name string, pod *v1.Pod) ([]image.Credential, error) {
	if !matches(c, name) {
		return nil, nil
	}
	a, err := p.account(ctx, c, pod)
	if err != nil || a.skip {
		return nil, err
	}
	from := image.Origin{Name: "credential provider " + c.Name, ServiceAccount: a.coordinates}
	registry, repository := split(name)
	keys := map[protocol.PluginCacheKeyType]string{
		protocol.ImagePluginCacheKeyType: repository, protocol.RegistryPluginCacheKeyType: registry, protocol.GlobalPluginCacheKeyType: "",
	}
	key := func(t protocol.PluginCacheKeyType) string {
		return strings.Join([]string{c.Name, string(t), keys[t], a.key}, "\x00")
	}
	for _, t := range []protocol.PluginCacheKeyType{protocol.ImagePluginCacheKeyType, protocol.RegistryPluginCacheKeyType, protocol.GlobalPluginCacheKeyType} {
		if logins, ok := p.remembered(key(t)); ok {
			return image.FromLogins(name, from, logins)
		}
	}
	answer, err := p.once(ctx, c.Name+"\x00"+name+"\x00"+a.key, func() (*protocol.CredentialProviderResponse, error) {
		return run(ctx, p.d.Files.Dir, c, protocol.CredentialProviderRequest{Image: name, ServiceAccountToken: a.token, ServiceAccountAnnotations: a.notes})
	})
	if err != nil {
		return nil, err
	}
	logins := make(map[string]image.Login, len(answer.Auth))
	for registry, l := range answer.Auth {
		logins[registry] = image.Login{Username: l.Username, Password: l.Password}
	}
	keep := c.DefaultCacheDuration.Duration
	if answer.CacheDuration != nil {
		keep = answer.CacheDuration.Duration
	}
	if keep > 0 {
		p.remember(key(answer.CacheKeyType), kept{logins, p.d.Now().Add(keep)})
	}
	return image.FromLogins(name, from, logins)
}

func (p *Providers) remembered(key string) (map[string]image.Login, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.known[key]
	if ok && !p.d.Now().Before(k.until) {
		delete(p.known, key)
		return nil, false
	}
	return k.logins, ok
}

func (p *Providers) remember(key string, k kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.d.Now()
	for old, v := range p.known {
		if !now.Before(v.until) {
			delete(p.known, old)
		}
	}
	p.known[key] = k
}

// once lets those who ask the same at the same time share one run of the plugin.
func (p *Providers) once(ctx context.Context, key string, run func() (*protocol.CredentialProviderResponse, error)) (*protocol.CredentialProviderResponse, error) {
	p.mu.Lock()
	q := p.under[key]
	if q != nil {
		p.mu.Unlock()
		select {
		case <-q.done:
			return q.answer, q.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	q = &question{done: make(chan struct{})}
	p.under[key] = q
	p.mu.Unlock()
	q.answer, q.err = run()
	p.mu.Lock()
	delete(p.under, key)
	p.mu.Unlock()
	close(q.done)
	return q.answer, q.err
}

// identity is what a plugin is told of the Pod's service account.
type identity struct {
	skip        bool // the plugin is not for this Pod
	token       string
	notes       map[string]string
	coordinates *v1beta1.ImagePullServiceAccount
	key         string // of remembered answers
}

func (p *Providers) account(ctx context.Context, c *config.CredentialProvider, pod *v1.Pod) (identity, error) {
	t := c.TokenAttributes
	if t == nil {
		return identity{}, nil
	}
	if pod == nil || pod.Spec.ServiceAccountName == "" || p.d.Accounts == nil {
		return identity{skip: *t.RequireServiceAccount}, nil
	}
	sa, err := p.d.Accounts.Account(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return identity{}, fmt.Errorf("failed to get service account %s/%s: %w", pod.Namespace, pod.Spec.ServiceAccountName, err)
	}
	notes := map[string]string{}
	for _, k := range t.RequiredServiceAccountAnnotationKeys {
		v, ok := sa.Annotations[k]
		if !ok {
			return identity{skip: true}, nil // the account does not take part
		}
		notes[k] = v
	}
	for _, k := range t.OptionalServiceAccountAnnotationKeys {
		if v, ok := sa.Annotations[k]; ok {
			notes[k] = v
		}
	}
	token, err := p.d.Accounts.Token(ctx, pod, t.ServiceAccountTokenAudience)
	if err != nil {
		return identity{}, fmt.Errorf("failed to get service account token: %w", err)
	}
	shown, err := json.Marshal(notes) // in order of the keys
	if err != nil {
		return identity{}, err
	}
	key := fmt.Sprintf("%s/%s/%s %s", sa.Namespace, sa.Name, sa.UID, shown)
	if t.CacheType == config.TokenServiceAccountTokenCacheType {
		key += fmt.Sprintf(" %x", sha256.Sum256([]byte(token)))
	}
	return identity{token: token, notes: notes, key: key,
		coordinates: &v1beta1.ImagePullServiceAccount{UID: string(sa.UID), Namespace: sa.Namespace, Name: sa.Name}}, nil
}

// split takes an image's name apart: its registry, and the name without tag and digest.
func split(name string) (registry, repository string) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name, name
	}
	return reference.Domain(named), named.Name()
}

// NodeConfigs are the places where a node keeps its Docker configuration: the kubelet's directory, then the home directory.
func NodeConfigs(rootDir string) []string {
	out := []string{filepath.Join(rootDir, "config.json")}
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(cmp.Or(os.Getenv("DOCKER_CONFIG"), filepath.Join(home, ".docker")), "config.json"))
	}
	return out
}
