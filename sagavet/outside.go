package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

// outsideAnalyzer finds flows that reach outside of the process without an effect.
var outsideAnalyzer = analyzer("sagaoutside", `report files, processes, the network, databases and the environment in flows

A flow runs from its beginning in every turn, perhaps on another machine. What it
reads from outside may have changed, so it may come to other questions than before;
what it changes outside is changed again each time, and never undone. Both belong
in an effect, whose result is recorded. Flows that neither ask nor have effects are left alone.`, func(src *source) {
	v := newFlowCode(src, outside, func(*types.Signature) bool { return false })
	for body := range v.flowBodies() {
		v.examine(body, "reaches outside of the saga: the flow runs from its beginning in every turn, so this may find something else, or act again",
			"Do it in an effect, whose result is recorded", nil)
	}
})

// outside returns the name of an object that reads or changes something outside of the process, and ""
// for everything else.
func outside(o types.Object) (name, advice string) {
	f, isFunc := o.(*types.Func)
	if of, _ := home(o); !world.has(o) && (!isFunc || of != "os" || inProcess.has(o)) && !contextual(f) {
		return "", ""
	}
	name = o.Pkg().Name() + "."
	if isFunc && f.Signature().Recv() != nil {
		name += shortName(f.Signature().Recv().Type()) + "."
	}
	return name + o.Name(), ""
}

// inProcess are the functions of package os that reach nothing outside.
var inProcess = table{"os": {"Exit", "Expand", "NewFile", "NewSyscallError", "SameFile", "DirFS", "Is*"}}

// world are those that reach outside. Of package os, all but a few functions do.
var world = table{
	"os":            {"Args", "Stdin"},
	"io/ioutil":     {"Read*", "Write*", "Temp*"},
	"path/filepath": {"Abs", "EvalSymlinks", "Glob", "Walk*"},
	"os.File":       {"Ch*", "Read*", "Seek", "Stat", "Sync", "Truncate", "Write*"},
	"os.Root":       {"*"},
	"os.Process":    {"*"},
	"os/exec":       {"LookPath"},
	"os/exec.Cmd":   {"Run", "Start", "Wait", "Output", "CombinedOutput"},
	"text/template": {"ParseFiles", "ParseGlob"},
	"html/template": {"ParseFiles", "ParseGlob"},
	"os/user":       {"Current", "Lookup*"},

	"net":                {"Dial*", "Interface*", "Listen*", "Lookup*", "Resolve*"},
	"net.Conn":           {"Read", "Write"},
	"net.Dialer":         {"Dial*"},
	"net.ListenConfig":   {"Listen*"},
	"net.Resolver":       {"Lookup*"},
	"net/http":           {"Get", "Head", "Post", "PostForm", "ListenAndServe*", "Serve", "ServeTLS"},
	"net/http.Client":    {"Do", "Get", "Head", "Post", "PostForm"},
	"net/http.Transport": {"RoundTrip"},
	"net/rpc":            {"Dial*"},
	"net/rpc.Client":     {"Call", "Go"},
	"net/smtp":           {"Dial", "SendMail"},
	"crypto/tls":         {"Dial*", "Listen"},
	"crypto/tls.Dialer":  {"Dial*"},

	"database/sql":      {"Open*"},
	"database/sql.DB":   {"Begin*", "Conn", "Exec*", "Ping*", "Prepare*", "Query*"},
	"database/sql.Conn": {"Begin*", "Exec*", "Ping*", "Prepare*", "Query*"},
	"database/sql.Tx":   {"Commit", "Exec*", "Prepare*", "Query*", "Rollback"},
	"database/sql.Stmt": {"Exec*", "Query*"},

	"github.com/jmoiron/sqlx":             {"Connect*", "Get*", "MustExec*", "NamedExec*", "NamedQuery*", "Open", "Select*"},
	"github.com/jmoiron/sqlx.DB":          {"Begin*", "Get*", "MustBegin*", "MustExec*", "Named*", "Query*", "Select*"},
	"github.com/jmoiron/sqlx.Tx":          {"Get*", "MustExec*", "Named*", "Query*", "Select*"},
	"gorm.io/gorm.DB":                     {"Begin", "Commit", "Count", "Create*", "Delete", "Exec", "Find*", "First*", "Last", "Pluck", "Rollback", "Save", "Scan*", "Take", "Transaction", "Update*"},
	"github.com/go-git/go-git":            {"Plain*", "Clone*"},
	"github.com/go-git/go-git.Repository": {"*"},
	"github.com/go-git/go-git.Worktree":   {"*"},
	"github.com/spf13/viper":              {"ReadInConfig"},
	"github.com/joho/godotenv":            {"Load", "Overload", "Read"},
}

// clients are packages for databases and services whose methods take a context if and only if they
// use the network.
var clients = []string{
	"github.com/jackc/pgx", "github.com/redis/go-redis", "go.mongodb.org/mongo-driver", "cloud.google.com/go",
	"github.com/aws/aws-sdk-go-v2", "github.com/Azure/azure-sdk-for-go", "google.golang.org/grpc", "github.com/nats-io/nats.go",
	"go.etcd.io/etcd/client", "github.com/minio/minio-go",
}

// contextual reports whether a method belongs to such a package and takes a context.
func contextual(f *types.Func) bool {
	if f == nil || f.Pkg() == nil || f.Signature().Recv() == nil || f.Signature().Params().Len() == 0 || !isContext(f.Signature().Params().At(0).Type()) {
		return false
	}
	path := f.Pkg().Path()
	return slices.ContainsFunc(clients, func(c string) bool { return path == c || strings.HasPrefix(path, c+"/") })
}
