# Load and verify a release of eigenveil in Julia 1.9 or newer: JSON.jl and the standard library.
#
#   include("read_release.jl"); release = read_release("folder")
#   julia read_release.jl folder
#
# A zip is unpacked first. The page is not rendered again and a signature is not checked:
# `eigenveil verify` does both.

using JSON, SHA

const FILES = Set(["release.json", "arrays.npz", "report.html"])

function check_sums(folder)
    sums = Dict(reverse(split(line, "  "; limit = 2)) for line in eachline(joinpath(folder, "SHA256SUMS")))
    Set(keys(sums)) == FILES || error("SHA256SUMS does not name the files of a release")
    present = setdiff(Set(readdir(folder)), ["SHA256SUMS", "SIGNATURE"])
    present == FILES || error("a file is missing, or there is one more")
    for (name, stated) in sums
        found = bytes2hex(open(sha256, joinpath(folder, name)))
        found == stated || error("$name does not match SHA256SUMS: damaged or altered")
    end
end

# Members of an uncompressed zip, by the local headers that lie before each of them.
function members(bytes)
    found, at = Dict{String,Vector{UInt8}}(), 1
    number(type, offset) = ltoh(reinterpret(type, bytes[at+offset:at+offset+sizeof(type)-1])[1])
    while at + 30 <= length(bytes) && bytes[at:at+3] == UInt8[0x50, 0x4b, 0x03, 0x04]
        number(UInt16, 8) == 0 || error("arrays.npz is compressed")
        size, name, extra = Int(number(UInt32, 18)), Int(number(UInt16, 26)), Int(number(UInt16, 28))
        if size == 0xffffffff # of 64 bits, in the extra field
            size = Int(number(UInt64, 30 + name + 4))
        end
        start = at + 30 + name + extra
        found[String(bytes[at+30:at+29+name])] = bytes[start:start+size-1]
        at = start + size
    end
    return found
end

# One array of NumPy's format: a header of text, then 64-bit floats.
function read_npy(bytes, shape)
    bytes[1:6] == UInt8[0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] || error("an array is not in NumPy's format")
    width = bytes[7] == 1 ? 2 : 4
    size = Int(ltoh(reinterpret(width == 2 ? UInt16 : UInt32, bytes[9:8+width])[1]))
    header = String(bytes[9+width:8+width+size])
    occursin("'<f8'", header) || error("an array does not hold 64-bit floats")
    values = ltoh.(reinterpret(Float64, bytes[9+width+size:end]))
    length(values) == prod(shape) || error("an array has another shape than release.json says")
    length(shape) < 2 && return collect(values)
    occursin("'fortran_order': True", header) && return reshape(collect(values), shape...)
    # NumPy counts the last index fastest.
    return permutedims(reshape(collect(values), reverse(shape)...), length(shape):-1:1)
end

function read_release(folder)
    check_sums(folder)
    statement = JSON.parsefile(joinpath(folder, "release.json"))
    statement["schema"] == "eigenveil-release/1" || error("not a release of schema 1")
    files = members(read(joinpath(folder, "arrays.npz")))
    named = statement["arrays"]
    Set(keys(files)) == Set(name * ".npy" for name in keys(named)) ||
        error("release.json and arrays.npz name other arrays")
    arrays = Dict(name => read_npy(files[name * ".npy"], Int.(named[name]["shape"])) for name in keys(named))
    return (
        kind = statement["kind"], mechanism = statement["mechanism"],
        columns = statement["settings"]["feature_names"],
        statement = statement["guarantee"]["sentence"], arrays = arrays,
    )
end

if abspath(PROGRAM_FILE) == @__FILE__
    release = read_release(only(ARGS))
    println(release.kind, " by ", release.mechanism)
    println(release.statement)
    for (name, values) in release.arrays
        println(name, " ", size(values))
    end
end
