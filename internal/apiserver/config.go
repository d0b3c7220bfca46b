package apiserver

import (
	"cmp"
	"context"
	"net"
	"net/netip"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver/encryptioncheck"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
)

// Config is the configuration of a server. The zero value of a field means the default that its
// comment names.
type Config struct {
	Listen   Listen
	Files    Files
	Etcd     store.Options    // embedded under DataDir/etcd unless Servers are named
	DataDir  string           // state of this server; needed for embedded etcd
	Services ServiceRanges    // cluster IPs and node ports of Services
	Kubelets pods.Connections // how log, exec, attach, portforward and proxy connect to kubelets
	Journal  Journal          // facts about Pods
	// Access makes authentication, authorization, admission and their kinds. nil accepts in-process
	// clients and nobody else.
	Access func(AccessDeps) (*Access, error)
	// Audit configures audit logging; nil turns it off.
	Audit *options.AuditOptions
	// Encryption configures the encryption of values in etcd.
	Encryption encryptioncheck.Options
	FlowControl
	// Features are the feature gates.
	Features features.Features
	Omit
	// Controllers run inside the server, as they need its store. They start when the bootstrap
	// objects exist and run until the server ends.
	Controllers []Controller
}

// Omit turns parts of a server off.
type Omit struct {
	// OpenAPIv2Off leaves out the old OpenAPI document (10-15 MB); kubectl before 1.27 needs it.
	OpenAPIv2Off bool
	// AggregatorOff and CustomResourcesOff leave out aggregated APIs and custom resources.
	AggregatorOff, CustomResourcesOff bool
}

// Controller is a controller that needs the store of its server.
type Controller struct {
	Name string // in the log
	// Run returns when ctx ends; it is called once, in a goroutine of its own.
	Run func(ctx context.Context, e ControllerContext)
}

// ControllerContext is the argument of Controller.Run.
type ControllerContext struct {
	Client     kubernetes.Interface // with the server's own rights
	Config     *rest.Config         // for other clients with the same rights
	Etcd       *clientv3.Client     // shared by all; the server closes it
	Migrations <-chan struct{}      // receives when a StorageVersionMigration is stored
}

// FlowControl bounds the requests that a server handles at once.
type FlowControl struct {
	// PriorityAndFairness is API Priority and Fairness: it divides the bound among users by
	// FlowSchemas and PriorityLevelConfigurations. Upstream's default is on.
	PriorityAndFairness bool
	// MaxInFlight bounds the requests that are handled at once.
	MaxInFlight MaxInFlight
}

// MaxInFlight is how many short requests a server handles at once; further ones get 429. Watches
// and other long-running requests do not count, and system:masters is exempt. A negative value
// means no bound. With priority and fairness the sum of both is divided among the priority levels
// and must be positive.
type MaxInFlight struct {
	NonMutating int // 400
	Mutating    int // 200
}

// limits returns the limits as the library takes them: 0 means none.
func (f MaxInFlight) limits() (reads, writes int) {
	return max(cmp.Or(f.NonMutating, 400), 0), max(cmp.Or(f.Mutating, 200), 0)
}

// Listen is the address that the server serves on.
type Listen struct {
	Address  string       // 0.0.0.0
	Port     int          // 6443; a negative value means any free port
	Listener net.Listener // replaces Address and Port
	// address of the kubernetes Service's endpoint; the first global one of the host when not set
	Advertise netip.Addr
	External  string // host name in URLs handed out; the advertised address when empty
}

// Files are the PEM files that a server reads; all but ClientCA are needed to listen.
type Files struct {
	Cert, Key             string // serving pair
	ClientCA              string // certificate authorities of clients
	ProxyCert, ProxyKey   string // client pair for aggregated API servers
	RequestHeaderCA       string // authority of front proxies
	ServiceAccountSigning string // private key; the rest of service accounts is Access's
}

// ServiceRanges are the ranges that Services are allocated from.
type ServiceRanges struct {
	CIDRs              []netip.Prefix // 10.96.0.0/16
	NodePortLow        int            // 30000
	NodePortHigh       int            // 32767, inclusive
	KubernetesNodePort int            // 0: the kubernetes Service is a ClusterIP
}

// Journal connects the server to the journal of Pods: Sink gets the server's facts, Reader and
// Appender serve podjournals.
type Journal struct {
	Sink     journal.Sink     // nil drops facts
	Reader   journal.Reader   // nil serves no podjournals
	Appender journal.Appender // nil refuses entries from remote components
}
