package credentialprovider

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

	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// ServiceAccounts is what plugins that work with service-account tokens need of the API.
type ServiceAccounts interface {
	GetServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// GetToken is a token of the Pod's service account for the audience, bound to the Pod.
	GetToken(ctx context.Context, pod *v1.Pod, audience string) (string, error)
}

// Deps is what Providers work with.
type Deps struct {
	Files           Files
	ServiceAccounts ServiceAccounts // nil: plugins that want tokens are not asked
	// paths of Docker config.json files of the node; those that are not there are left out
	Configs []string
	Now     func() time.Time // time.Now when nil
	// Ran, when not nil, is told of each run of a plugin.
	Ran func(plugin string, took time.Duration, err error)
}

// Providers are the node's ways to log in.
type Providers struct {
	d    Deps
	list []config.CredentialProvider
	hash string

	mu       sync.Mutex
	cache    map[string]cachedLogins // answers that may be used again
	inflight map[string]*pluginCall  // plugins that are running
}

type cachedLogins struct {
	logins map[string]images.Login
	until  time.Time
}

type pluginCall struct {
	done     chan struct{}
	response *protocol.CredentialProviderResponse
	err      error
}

// New reads the configuration and makes sure that the plugins are there.
func New(d Deps) (*Providers, error) {
	list, hash, err := d.Files.read()
	if err != nil {
		return nil, err
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Ran == nil {
		d.Ran = func(string, time.Duration, error) {}
	}
	return &Providers{d: d, list: list, hash: hash,
		cache: map[string]cachedLogins{}, inflight: map[string]*pluginCall{}}, nil
}

// ConfigHash is the digest of the configuration's files as upstream computes it; empty: there are
// none.
func (p *Providers) ConfigHash() string { return p.hash }

// Credentials are what the node has for an image: plugins in their order, then the Docker
// configuration. What fails is reported beside what works.
func (p *Providers) Credentials(ctx context.Context, name string, pod *v1.Pod) ([]images.Credential, []error) {
	var out []images.Credential
	var bad []error
	for i := range p.list {
		got, err := p.credentialsFrom(ctx, &p.list[i], name, pod)
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
		var got []images.Credential
		if err == nil {
			got, err = images.FromDockerConfig(name, images.Origin{Name: path}, text)
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
		if ok, err := images.Matches(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

// credentialsFrom returns what a plugin has for the image, from memory when it may.
func (p *Providers) credentialsFrom(ctx context.Context, c *config.CredentialProvider, name string,
	pod *v1.Pod) ([]images.Credential, error) {
	if !matches(c, name) {
		return nil, nil
	}
	a, err := p.identityOf(ctx, c, pod)
	if err != nil || a.unavailable {
		return nil, err
	}
	from := images.Origin{Name: "credential provider " + c.Name, ServiceAccount: a.coordinates}
	registry, repository := split(name)
	keys := map[protocol.PluginCacheKeyType]string{
		protocol.ImagePluginCacheKeyType: repository, protocol.RegistryPluginCacheKeyType: registry,
		protocol.GlobalPluginCacheKeyType: "",
	}
	key := func(t protocol.PluginCacheKeyType) string {
		return strings.Join([]string{c.Name, string(t), keys[t], a.key}, "\x00")
	}
	for _, t := range []protocol.PluginCacheKeyType{protocol.ImagePluginCacheKeyType,
		protocol.RegistryPluginCacheKeyType, protocol.GlobalPluginCacheKeyType} {
		if logins, ok := p.cached(key(t)); ok {
			return images.FromLogins(name, from, logins)
		}
	}
	answer, err := p.shareCall(ctx, c.Name+"\x00"+name+"\x00"+a.key,
		func() (*protocol.CredentialProviderResponse, error) {
			startedAt := time.Now()
			answer, err := run(ctx, p.d.Files.Dir, c, protocol.CredentialProviderRequest{Image: name,
				ServiceAccountToken: a.token, ServiceAccountAnnotations: a.annotations})
			p.d.Ran(c.Name, time.Since(startedAt), err)
			return answer, err
		})
	if err != nil {
		return nil, err
	}
	logins := make(map[string]images.Login, len(answer.Auth))
	for registry, l := range answer.Auth {
		logins[registry] = images.Login{Username: l.Username, Password: l.Password}
	}
	cacheFor := c.DefaultCacheDuration.Duration
	if answer.CacheDuration != nil {
		cacheFor = answer.CacheDuration.Duration
	}
	if cacheFor > 0 {
		p.store(key(answer.CacheKeyType), cachedLogins{logins, p.d.Now().Add(cacheFor)})
	}
	return images.FromLogins(name, from, logins)
}

func (p *Providers) cached(key string) (map[string]images.Login, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.cache[key]
	if ok && !p.d.Now().Before(k.until) {
		delete(p.cache, key)
		return nil, false
	}
	return k.logins, ok
}

func (p *Providers) store(key string, k cachedLogins) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.d.Now()
	for old, v := range p.cache {
		if !now.Before(v.until) {
			delete(p.cache, old)
		}
	}
	p.cache[key] = k
}

// shareCall lets those who ask the same at the same time share one run of the plugin.
func (p *Providers) shareCall(ctx context.Context, key string,
	run func() (*protocol.CredentialProviderResponse, error)) (*protocol.CredentialProviderResponse, error) {
	p.mu.Lock()
	q := p.inflight[key]
	if q != nil {
		p.mu.Unlock()
		select {
		case <-q.done:
			return q.response, q.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	q = &pluginCall{done: make(chan struct{})}
	p.inflight[key] = q
	p.mu.Unlock()
	q.response, q.err = run()
	p.mu.Lock()
	delete(p.inflight, key)
	p.mu.Unlock()
	close(q.done)
	return q.response, q.err
}

// identity is what a plugin is told of the Pod's service account.
type identity struct {
	unavailable bool // the plugin is not for this Pod
	token       string
	annotations map[string]string
	coordinates *v1beta1.ImagePullServiceAccount
	key         string // of remembered answers
}

func (p *Providers) identityOf(ctx context.Context, c *config.CredentialProvider, pod *v1.Pod) (identity, error) {
	t := c.TokenAttributes
	if t == nil {
		return identity{}, nil
	}
	if pod == nil || pod.Spec.ServiceAccountName == "" || p.d.ServiceAccounts == nil {
		return identity{unavailable: *t.RequireServiceAccount}, nil
	}
	sa, err := p.d.ServiceAccounts.GetServiceAccount(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return identity{}, fmt.Errorf("failed to get service account %s/%s: %w", pod.Namespace,
			pod.Spec.ServiceAccountName, err)
	}
	notes := map[string]string{}
	for _, k := range t.RequiredServiceAccountAnnotationKeys {
		v, ok := sa.Annotations[k]
		if !ok {
			return identity{unavailable: true}, nil // the account does not take part
		}
		notes[k] = v
	}
	for _, k := range t.OptionalServiceAccountAnnotationKeys {
		if v, ok := sa.Annotations[k]; ok {
			notes[k] = v
		}
	}
	token, err := p.d.ServiceAccounts.GetToken(ctx, pod, t.ServiceAccountTokenAudience)
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
	return identity{token: token, annotations: notes, key: key,
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

// NodeConfigs are the places where a node keeps its Docker configuration: the kubelet's directory,
// then the home directory.
func NodeConfigs(rootDir string) []string {
	out := []string{filepath.Join(rootDir, "config.json")}
	if homeDir, err := os.UserHomeDir(); err == nil {
		out = append(out, filepath.Join(cmp.Or(os.Getenv("DOCKER_CONFIG"), filepath.Join(homeDir, ".docker")),
			"config.json"))
	}
	return out
}
