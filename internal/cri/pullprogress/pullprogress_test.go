package pullprogress

import (
	"context"
	"fmt"
	"net"
	"testing"

	content "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// fakeContentStore is a content store with ingests in progress and finished content.
type fakeContentStore struct {
	content.UnimplementedContentServer
	under  map[string]int64 // ref to offset
	there  map[string]*content.Info
	blobs  map[string]string
	filter string
}

func (s *fakeContentStore) ListStatuses(ctx context.Context,
	_ *content.ListStatusesRequest) (*content.ListStatusesResponse, error) {
	if md, _ := metadata.FromIncomingContext(ctx); len(md["containerd-namespace"]) != 1 ||
		md["containerd-namespace"][0] != "k8s.io" {
		return nil, status.Errorf(codes.FailedPrecondition, "namespace %v", md["containerd-namespace"])
	}
	r := &content.ListStatusesResponse{}
	for ref, at := range s.under {
		r.Statuses = append(r.Statuses, &content.Status{Ref: ref, Offset: at})
	}
	return r, nil
}

func (s *fakeContentStore) List(r *content.ListContentRequest, out content.Content_ListServer) error {
	s.filter = r.Filters[0]
	for _, i := range s.there {
		if err := out.Send(&content.ListContentResponse{Info: []*content.Info{i}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeContentStore) Read(r *content.ReadContentRequest, out content.Content_ReadServer) error {
	b := s.blobs[r.Digest]
	for i := 0; i < len(b); i += 20 { // in pieces
		if err := out.Send(&content.ReadContentResponse{Offset: int64(i), Data: []byte(b[i:min(i+20, len(b))])}); err !=
			nil {
			return err
		}
	}
	return nil
}

func (s *fakeContentStore) Info(_ context.Context, r *content.InfoRequest) (*content.InfoResponse, error) {
	if i := s.there[r.Digest]; i != nil {
		return &content.InfoResponse{Info: i}, nil
	}
	return nil, status.Error(codes.NotFound, r.Digest)
}

func (s *fakeContentStore) add(digest string, i *content.Info) {
	i.Digest = digest
	s.there[digest] = i
}

func open(t *testing.T, register func(*grpc.Server)) *Store {
	l, server := bufconn.Listen(1<<16), grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	s, err := Open(Options{Endpoint: "unix:///run/x.sock",
		Dialer: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const host = "containerd.io/distribution.source."

func manifestOf(repository string, layers ...string) *content.Info {
	i := &content.Info{Size: 500, Labels: map[string]string{host + "r.test": repository,
		"containerd.io/gc.ref.content.config": "sha256:c"}}
	for n, l := range layers {
		i.Labels[fmt.Sprint("containerd.io/gc.ref.content.l.", n)] = l
	}
	return i
}

func TestBytesOfAPull(t *testing.T) {
	s := &fakeContentStore{under: map[string]int64{}, there: map[string]*content.Info{}, blobs: map[string]string{}}
	store := open(t, func(g *grpc.Server) { content.RegisterContentServer(g, s) })
	ask := func(want string) {
		t.Helper()
		done, total, ok := store.PullProgress(t.Context(), "r.test:5000/team/app:1")
		if got := fmt.Sprint(done, total, ok); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	ask("0 0 false") // nothing is under way
	s.under["manifest-sha256:m"] = 10
	ask("0 0 false") // the manifest itself is
	delete(s.under, "manifest-sha256:m")
	s.add("sha256:m", manifestOf("other,team/app", "sha256:1", "sha256:2", "sha256:3"))
	s.add("sha256:elsewhere", manifestOf("team/app", "sha256:9"))
	s.blobs["sha256:m"] =
		`{"config":{"digest":"sha256:c","size":5},"layers":[{"digest":"sha256:1","size":1000},{"digest":"sha256:2",` +
			`"size":200},{"digest":"sha256:3","size":30}]}`
	s.add("sha256:1", &content.Info{Size: 1000})
	s.under["layer-sha256:2"] = 50
	ask("1050 1235 true")
	if s.filter != `labels."containerd.io/distribution.source.r.test"` {
		t.Errorf(`got %v, want filter 'labels."containerd.io/distribution.source.r.test"'`, s.filter)
	}
	s.add("sha256:newer", manifestOf("team/app", "sha256:2"))
	ask("0 0 false") // two pulls of the repository share what is under way and cannot be distinguished
	delete(s.there, "sha256:newer")
	s.there["sha256:m"].Labels[host+"r.test"] = "team/apps"
	ask("0 0 false") // another image's pull
}

// counter implements nothing but counts calls.
type counter struct{ calls int }

func (c *counter) none(any, grpc.ServerStream) error {
	c.calls++
	return status.Error(codes.Unimplemented, "unknown service")
}

func TestUnsupportedRuntimeIsQueriedOnce(t *testing.T) {
	c := &counter{}
	l, server := bufconn.Listen(1<<16), grpc.NewServer(grpc.UnknownServiceHandler(c.none))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	s, err := Open(Options{Endpoint: "/run/x.sock", Dialer: func(ctx context.Context, _ string) (net.Conn, error) {
		return l.DialContext(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, ok := s.PullProgress(t.Context(), "app:1"); ok {
			t.Error("got a report, want none")
		}
	}
	if c.calls != 1 {
		t.Errorf("asked %d times, want 1", c.calls)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSourceOfAName(t *testing.T) {
	for name, want := range map[string]string{
		"busybox": "docker.io library/busybox", "docker.io/library/busybox:1.28": "docker.io library/busybox",
		"docker.io/busybox": "docker.io library/busybox", "me/app:1": "docker.io me/app",
		"127.0.0.1:5000/app:1": "127.0.0.1 app", "localhost/app": "localhost app",
		"r.test/team/app@sha256:0123": "r.test team/app",
	} {
		if h, r := sourceOf(name); h+" "+r != want {
			t.Errorf("%s: %s %s, want %s", name, h, r, want)
		}
	}
}
